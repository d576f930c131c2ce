"""What every layer uses: errors, types, arrays, files, threads, memory, progress, tables."""
