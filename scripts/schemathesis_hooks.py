"""What scripts/schemathesis.toml cannot say: a body of the tus protocol is plain bytes, addresses have an end, and streams of events have none."""

from urllib.parse import urlencode

import schemathesis

# Longer ones are refused by the HTTP library with 414, before an operation is chosen that could document it.
QUERY_BYTES_MAX = 32_000

schemathesis.serializer.alias("application/offset+octet-stream", "application/octet-stream")

# An answer of this type goes on for as long as somebody listens.
ENDLESS = "text/event-stream"


@schemathesis.hook
def before_load_schema(context, raw_schema):
    for path in raw_schema["paths"].values():
        for method in [method for method, operation in path.items() if is_endless(operation)]:
            del path[method]


def is_endless(operation):
    return any(ENDLESS in answer.get("content", {}) for answer in operation["responses"].values())


@schemathesis.hook
def filter_query(context, query):
    return len(urlencode(query or {}, doseq=True, errors="replace")) < QUERY_BYTES_MAX
