"""The report on a snapshot: measures, findings, charts and the page."""
