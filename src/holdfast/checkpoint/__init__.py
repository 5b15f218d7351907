"""What a checkpoint consists of: the files of a barrier, the manifest, which query may resume from it.

Pure: imports words and errors, works on names, sizes and bytes that it is given. Never opens a file.
"""
