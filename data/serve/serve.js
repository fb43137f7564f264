"use strict";
// The form of `stepcast serve`: asks /v1/ and shows the page that it answers.
const said = document.getElementById("said"), shown = document.getElementById("result");
const bar = document.getElementById("progress"), stopButton = document.getElementById("stop");
const token = new URLSearchParams(location.hash.slice(1)).get("token");

function say(text, wrong = false) {
  said.textContent = text;
  said.classList.toggle("wrong", wrong);
}

async function ask(method, path, body, accept = "application/json") {
  const headers = { Accept: accept };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  if (answer.ok) return answer;
  const { error } = await answer.json();
  throw new Error(answer.status === 401 && !token ? `${error.message} (in the browser: /#token=TOKEN)` : error.message);
}

function show(page) {
  shown.srcdoc = page;
  shown.hidden = false;
  shown.scrollIntoView({ behavior: "smooth" });
}

// A value as JSON has it: 8, true, "1f1b".
function value(text) {
  const number = Number(text);
  if (text !== "" && Number.isFinite(number)) return number;
  return text === "true" ? true : text === "false" ? false : text;
}

document.getElementById("forecast").addEventListener("submit", async (event) => {
  event.preventDefault();
  const fields = new FormData(event.target), set = {};
  const button = event.target.querySelector("button");
  for (const [name, text] of fields)
    if (name.includes(".") && text.trim()) set[name] = value(text.trim());
  for (const line of fields.get("more").split("\n").map((line) => line.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) return say(`"${line}": expected key=value`, true);
    set[line.slice(0, at).trim()] = value(line.slice(at + 1).trim());
  }
  const text = fields.get("text").trim();
  button.disabled = true;
  say("Forecasting...");
  try {
    const body = text ? { text, set } : { scenario: fields.get("scenario"), set };
    show(await (await ask("POST", "/v1/forecast", body, "text/html")).text());
    say("");
  } catch (error) {
    say(error.message, true);
  } finally {
    button.disabled = false;
  }
});

async function watch(id) {
  for (;;) {
    const now = await (await ask("GET", `/v1/search/${id}`)).json();
    const { legal, open, simulated } = now.progress, best = now.progress.best_step_time_s;
    bar.max = legal || 1;
    bar.value = legal - open;
    say(`${(legal - open).toLocaleString("en")} of ${legal.toLocaleString("en")} layouts decided, ` +
        `${simulated.toLocaleString("en")} simulated${best ? `; best ${best.toPrecision(4)} s` : ""}`);
    if (now.state !== "running") return now;
    await new Promise((wait) => setTimeout(wait, 300));
  }
}

document.getElementById("search").addEventListener("submit", async (event) => {
  event.preventDefault();
  const fields = new FormData(event.target), button = event.target.querySelector("button");
  const body = {};
  for (const [name, text] of fields) body[name] = value(text.trim());
  button.disabled = true;
  try {
    const { id } = await (await ask("POST", "/v1/search", body)).json();
    bar.hidden = stopButton.disabled = false;
    stopButton.onclick = () => ask("DELETE", `/v1/search/${id}`).catch((error) => say(error.message, true));
    const end = await watch(id);
    if (end.result) show(await (await ask("GET", `/v1/search/${id}`, null, "text/html")).text());
    if (end.error) say(end.error, true);
  } catch (error) {
    say(error.message, true);
  } finally {
    button.disabled = false;
    stopButton.disabled = true;
  }
});

async function fill(id, path) {
  const names = await (await ask("GET", path)).json();
  document.querySelector(id).append(...names.map((name) => new Option(name)));
}
Promise.all([fill("select[name=scenario]", "/v1/scenarios"), fill("#models", "/v1/models"), fill("#clusters", "/v1/clusters")])
  .catch((error) => say(error.message, true));
