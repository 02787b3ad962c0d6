"""The version of this library, and how it names itself to the server."""

VERSION = "0.1.0"
NAME = f"spindle-client-python/{VERSION}"
"""In the header `User-Agent`, and in the metadata of runs without a parent."""
ROOT_METADATA = {"spindle_client": NAME}
"""With it the server shows which versions an app reports with."""
