"""What scripts/schemathesis.toml cannot say: a body of the tus protocol is plain bytes."""

import schemathesis

schemathesis.serializer.alias("application/offset+octet-stream", "application/octet-stream")
