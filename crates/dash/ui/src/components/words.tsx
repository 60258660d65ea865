// Texts of the server name things between back quotes; on a page they stand as code.

export function Words({ text }: { text: string }) {
  const parts = text.split("`");
  // Without a pair there is nothing to mark.
  if (parts.length % 2 === 0) return <>{text}</>;
  return <>{parts.map((part, at) => (at % 2 === 1 ? <code key={at}>{part}</code> : part))}</>;
}
