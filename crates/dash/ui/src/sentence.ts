// Texts of the API are lower-case without a full stop; on a page they are sentences.

/** A text of the API as a sentence. */
export function sentence(text: string): string {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?:]$/.test(whole) ? whole : `${whole}.`;
}
