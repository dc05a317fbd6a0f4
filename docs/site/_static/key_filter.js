// A field above the tables of the page of keys: rows without all of its words are hidden.
document.addEventListener("DOMContentLoaded", () => {
  const place = document.getElementById("key-filter");
  if (place === null) return;
  const rows = Array.from(document.querySelectorAll("table tbody tr"));
  const field = Object.assign(document.createElement("input"), {
    type: "search", placeholder: "Find a key, a value or a word", ariaLabel: "Find keys"});
  const count = document.createElement("output");
  place.append(field, count);
  const update = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    for (const table of document.querySelectorAll("table")) {
      const section = table.closest("section");
      section.hidden = words.length > 0 && !section.querySelector("tbody tr:not([hidden])");
    }
    count.textContent = `${shown} of ${rows.length} keys`;
    history.replaceState(null, "", words.length ? `#find=${encodeURIComponent(field.value)}` : location.pathname);
  };
  field.addEventListener("input", update);
  if (location.hash.startsWith("#find=")) field.value = decodeURIComponent(location.hash.slice(6));
  update();
});
