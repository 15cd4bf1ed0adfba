"""Files of RocksDB and ForSt: manifests, and sorted tables (``*.sst``), which kernels read and merge."""
