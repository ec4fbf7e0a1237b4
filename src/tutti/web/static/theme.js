// Runs before anything is painted, so that a chosen theme does not flash the other one.
(() => {
  const chosen = localStorage.getItem("tutti.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
