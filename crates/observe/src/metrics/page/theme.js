// Dark and light: of the system, unless a choice is kept in this browser.

const KEPT = "choro-theme";

// Calls `changed` whenever colors have changed.
export function startTheme(select, changed) {
  const apply = () => {
    if (select.value === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = select.value;
    changed();
  };
  select.value = kept() ?? "system";
  if (!select.value) select.value = "system";
  select.addEventListener("change", () => {
    keep(select.value);
    apply();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  apply();
}

// A browser may forbid pages to keep anything.
function kept() {
  try { return localStorage.getItem(KEPT); } catch { return null; }
}

function keep(theme) {
  try { localStorage.setItem(KEPT, theme); } catch { /* The choice ends with the page. */ }
}
