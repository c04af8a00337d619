// Before anything is painted: the scheme that was chosen last time.
"use strict";
try {
  const chosen = localStorage.getItem("queen-scheme");
  if (chosen) document.documentElement.dataset.scheme = chosen;
} catch { /* no storage: the system decides */ }
