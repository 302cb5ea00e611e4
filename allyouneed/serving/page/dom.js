// The two things that every other file does with the document.

export const byId = (id) => document.getElementById(id);

/** An element with attributes and children; text is never markup. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}
