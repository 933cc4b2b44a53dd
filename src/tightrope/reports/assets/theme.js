"use strict";
// The colour scheme is the reader's own until the button is pressed.
{
  const button = document.getElementById("theme");
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  const dark = () =>
    (document.documentElement.dataset.theme ?? (preferred.matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = dark() ? "Light" : "Dark"; };
  button.hidden = false;
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    label();
  });
  preferred.addEventListener("change", label);
  label();
}
