// The list of keys.
import { useEffect, useRef } from "preact/hooks";

import { isHelpShown, KEYS, PLACES } from "../keys";

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  const isShown = isHelpShown.value;
  useEffect(() => {
    if (isShown && !dialog.current?.open) dialog.current?.showModal();
    if (!isShown && dialog.current?.open) dialog.current.close();
  }, [isShown]);
  const row = (keys: readonly string[], about: string) => (
    <div key={about}>
      <dt>
        {keys.map((key) => (
          <kbd key={key}>{key}</kbd>
        ))}
      </dt>
      <dd>{about}</dd>
    </div>
  );
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="keys" onClose={() => (isHelpShown.value = false)} onClick={(event) => event.target === dialog.current && dialog.current?.close()}>
      <h2 id="keys">Keys</h2>
      <div class="keys">
        <dl>{KEYS.map(([key, about]) => row([key], about))}</dl>
        <dl>{PLACES.map(([letter, , name]) => row(["g", letter], name))}</dl>
      </div>
      <form method="dialog" class="dialog-buttons">
        <button class="button" type="submit">
          Close
        </button>
      </form>
    </dialog>
  );
}
