"""What every layer uses: errors, types, arrays, files, JSON, tables, threads, memory, progress."""
