"use strict";

// Tables sort by a click on a heading, each block of rows by itself; a second click turns the order.
function key(row, column) {
  const cell = row.cells[column];
  if (!cell) return "";
  const text = cell.dataset.sort ?? cell.textContent.trim();
  const number = Number(text);
  return text !== "" && !Number.isNaN(number) ? number : text.toLowerCase();
}

function compare(a, b) {
  if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
  return typeof a === "number" ? -1 : 1; // numbers before words
}

function sort(table, column, heading) {
  const down = heading.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  for (const body of table.tBodies) {
    const rows = [...body.rows].filter((row) => !row.classList.contains("block"));
    rows.sort((a, b) => compare(key(a, column), key(b, column)) * (down ? -1 : 1));
    body.append(...rows);
  }
}

for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    heading.querySelector("button")?.addEventListener("click", () => sort(table, column, heading));
  });
}

// On a narrow screen the contents start closed.  On paper every table is open; how a claim is checked
// is there where the reader had opened it.
const contents = document.querySelector(".contents");
if (window.matchMedia("(max-width: 70rem)").matches) contents.open = false;
let closed = [];
window.addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details.fold:not([open])")];
  for (const part of closed) part.open = true;
});
window.addEventListener("afterprint", () => {
  for (const part of closed) part.open = false;
});
