"use strict";
(async () => {
  const main = document.getElementById("main");
  // Everything is made of text nodes: what a schema or an answer says can never become markup.
  const make = (name, attributes, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (key === "on") node.addEventListener(value[0], value[1]);
      else node.setAttribute(key, value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  };
  const spec = await (await fetch("/openapi.json")).json();
  const resolve = (schema) => {
    const name = schema && schema.$ref && schema.$ref.split("/").pop();
    return name ? spec.components.schemas[name] : schema;
  };
  const label = (schema) => {
    if (!schema) return "";
    if (schema.$ref) return schema.$ref.split("/").pop();
    if (schema.enum) return schema.enum.map((word) => JSON.stringify(word)).join(" | ");
    if (schema.const !== undefined) return JSON.stringify(schema.const);
    const union = schema.anyOf || schema.oneOf;
    if (union) return union.map(label).join(" | ");
    if (schema.type === "array") return label(schema.items) + "[]";
    return [].concat(schema.type || "any").join(" | ") + (schema.format ? " (" + schema.format + ")" : "");
  };
  const example = (schema, depth) => {
    const plain = resolve(schema) || {};
    if (plain.default !== undefined && plain.default !== null) return plain.default;
    if (plain.examples) return plain.examples[0];
    if (plain.enum) return plain.enum[0];
    if (plain.const !== undefined) return plain.const;
    const union = plain.anyOf || plain.oneOf;
    if (union) return example(union[0], depth);
    const type = [].concat(plain.type || "object")[0];
    if (type === "string") return "";
    if (type === "integer" || type === "number") return plain.minimum || 0;
    if (type === "boolean") return false;
    if (type === "array" || depth > 3) return type === "array" ? [] : {};
    const made = {};
    for (const name of plain.required || []) made[name] = example((plain.properties || {})[name], depth + 1);
    return made;
  };
  const fields = (schema) => {
    const plain = resolve(schema) || {};
    const required = new Set(plain.required || []);
    const rows = Object.entries(plain.properties || {}).map(([name, of]) =>
      make("tr", {}, make("td", {}, make("code", {}, name + (required.has(name) ? " *" : ""))),
        make("td", {}, make("code", {}, label(of))), make("td", {}, (of.description || resolve(of).description || ""))));
    return rows.length ? make("table", {}, ...rows) : make("code", {}, label(schema));
  };
  const token = make("input", { type: "password", placeholder: "token: prv_…", autocomplete: "off", "aria-label": "token" });
  const filter = make("input", { type: "search", placeholder: "filter", "aria-label": "filter", on: ["input", () => show()] });

  const tryIt = (method, path, operation) => {
    const inputs = (operation.parameters || []).map((parameter) => {
      const field = make("input", { "aria-label": parameter.name, placeholder: label(parameter.schema) });
      if (parameter.name === "namespace") field.value = "default";
      return { parameter, field };
    });
    const content = operation.requestBody && operation.requestBody.content["application/json"];
    const body = content ? make("textarea", { "aria-label": "body" }) : null;
    if (body) body.value = JSON.stringify(example(content.schema, 0), null, 2);
    const answer = make("pre", { hidden: "" });
    let running = null;
    const send = async () => {
      if (running) { running.abort(); return; }
      running = new AbortController();
      button.textContent = "Stop";
      answer.hidden = false;
      answer.textContent = "…";
      try {
        const headers = {};
        if (token.value) headers.authorization = "Bearer " + token.value;
        const query = new URLSearchParams();
        let target = path;
        for (const { parameter, field } of inputs) {
          if (parameter.in === "path") target = target.replace("{" + parameter.name + "}", encodeURIComponent(field.value));
          else if (field.value !== "" && parameter.in === "query") query.append(parameter.name, field.value);
          else if (field.value !== "") headers[parameter.name] = field.value;
        }
        if (body) headers["content-type"] = "application/json";
        const text = query.toString();
        const response = await fetch(target + (text ? "?" + text : ""),
          { method, headers, body: body ? body.value : undefined, signal: running.signal });
        answer.textContent = response.status + " " + response.statusText + "\n\n";
        if ((response.headers.get("content-type") || "").includes("json")) {
          answer.textContent += JSON.stringify(await response.json(), null, 2);
        } else {
          const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
          for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
            answer.textContent = (answer.textContent + piece.value).slice(-200000);
          }
        }
      } catch (error) {
        answer.textContent += "\n" + error;
      }
      running = null;
      button.textContent = "Send";
    };
    const button = make("button", { on: ["click", send] }, "Send");
    const rows = inputs.map(({ parameter, field }) =>
      make("tr", {}, make("td", {}, make("code", {}, parameter.name + (parameter.required ? " *" : ""))),
        make("td", {}, field), make("td", {}, parameter.description || "")));
    return make("div", {}, rows.length ? make("table", {}, ...rows) : null, body, make("p", {}, button), answer);
  };

  const describe = (method, path, operation) => {
    const box = make("details", { id: operation.operationId },
      make("summary", {}, make("span", { class: "method " + method }, method), make("span", { class: "path" }, path),
        make("span", { class: "note" }, "  " + operation.summary)));
    box.addEventListener("toggle", () => {
      if (!box.open || box.dataset.made) return;
      box.dataset.made = "yes";
      const scope = operation["x-provost-scope"];
      const inside = make("div", {}, make("p", { class: "note" }, operation.operationId + (scope ? " · needs the scope " + scope : "")));
      const content = operation.requestBody && operation.requestBody.content["application/json"];
      if (content) inside.append(make("h4", {}, "Body: " + label(content.schema)), fields(content.schema));
      for (const [status, response] of Object.entries(operation.responses)) {
        if (!status.startsWith("2")) continue;
        const [kind, media] = Object.entries(response.content || {})[0] || [];
        inside.append(make("h4", {}, status + (kind ? " " + kind + ": " + label(media.schema) : "")));
        if (media && kind === "application/json") inside.append(fields(media.schema));
      }
      inside.append(make("h4", {}, "Try it"), tryIt(method, path, operation));
      box.append(inside);
    });
    return box;
  };

  const list = make("div", {});
  const show = () => {
    const wanted = filter.value.toLowerCase();
    list.replaceChildren();
    for (const tag of spec.tags) {
      const found = [];
      for (const [path, item] of Object.entries(spec.paths)) {
        for (const [method, operation] of Object.entries(item)) {
          const text = [path, operation.operationId, operation.summary].join(" ").toLowerCase();
          if (operation.tags[0] === tag.name && text.includes(wanted)) found.push(describe(method.toUpperCase(), path, operation));
        }
      }
      if (found.length) list.append(make("h2", {}, tag.name), make("p", { class: "note" }, tag.description || ""), ...found);
    }
  };
  main.append(make("h1", {}, spec.info.title + " " + spec.info.version), make("p", {}, spec.info.description),
    make("div", { class: "bar" }, token, filter), list,
    make("p", { class: "note" }, "The document behind this page: ", make("a", { href: "/openapi.json" }, "/openapi.json")));
  show();
})();
