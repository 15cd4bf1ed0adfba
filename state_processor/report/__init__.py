"""A snapshot as a page: what is measured and counted, its charts, and the page itself."""
