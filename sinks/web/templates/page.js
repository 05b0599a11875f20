"use strict";
// Every page is complete without this script; it only adds what HTML cannot do: copying, and keys that step.
for (const one of document.querySelectorAll("[data-script]")) one.hidden = false;
for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
    } catch {
      // A page that was not loaded over HTTPS may have no clipboard; the line is selected, so that it can be copied.
      getSelection().selectAllChildren(button.parentElement);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = label; }, 2000);
  });
}
const steps = [...document.querySelectorAll("details.step")];
const show = (step) => {
  for (const other of steps) other.open = other === step;
  step.querySelector("summary").focus();
  step.scrollIntoView({ block: "nearest" });
};
addEventListener("keydown", (event) => {
  const move = { n: 1, p: -1 }[event.key];
  if (!move || !steps.length || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea")) return;
  const now = steps.findIndex((step) => step.open);
  const next = now < 0 ? (move > 0 ? 0 : steps.length - 1) : now + move;
  if (steps[next]) show(steps[next]);
});
const linked = () => {
  const step = steps.find((one) => `#${one.id}` === location.hash);
  if (step) show(step);
};
addEventListener("hashchange", linked);
linked();
