"""What scripts/schemathesis.toml cannot say: a body of the tus protocol is plain bytes, and addresses have an end."""

from urllib.parse import urlencode

import schemathesis

# Longer ones are refused by the HTTP library with 414, before an operation is chosen that could document it.
QUERY_BYTES_MAX = 32_000

schemathesis.serializer.alias("application/offset+octet-stream", "application/octet-stream")


@schemathesis.hook
def filter_query(context, query):
    return len(urlencode(query or {}, doseq=True, errors="replace")) < QUERY_BYTES_MAX
