"""What a checkpoint consists of: the files of a barrier, the manifest, what may go on from what.

Pure: works on names, sizes and bytes that it is given. Never opens a file.
"""
