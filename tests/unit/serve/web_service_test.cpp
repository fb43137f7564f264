// What the server answers, asked without a network.
#include "sim/serve/web_service.hpp"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "sim/config/shipped_only.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

using namespace sim;
using nlohmann::json;

namespace {

WebRequest posted(const std::string& path, const json& body) {
  return {.method = "POST",
          .path = path,
          .body = body.dump(),
          .content_type = "application/json",
          .host = "localhost:8080"};
}

WebRequest got(const std::string& path) {
  return {.method = "GET", .path = path, .host = "127.0.0.1:8080"};
}

std::string message_of(const WebAnswer& answer) {
  return json::parse(answer.body).at("error").at("message");
}

const json small_job{{"scenario", "gpt2-124m-8-h100"}};
const json small_search{
    {"model", "gpt2"}, {"cluster", "dgx-h100"}, {"gpus", 8}, {"batch", 64}, {"sequence", 1024}};

// A search's end.
json ended(WebService& service, const std::string& id) {
  for (;;) {
    const json now = json::parse(service.answer(got("/v1/search/" + id)).body);
    if (now.at("state") != "running") return now;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
}

}  // namespace

TEST_CASE("server: a forecast is the report of the scenario, or a page of it") {
  WebService service;
  const WebAnswer answer = service.answer(posted("/v1/forecast", small_job));
  REQUIRE(answer.status == 200);
  const json report = json::parse(answer.body);
  std::ifstream golden{test::source_dir() + "/tests/golden/gpt2-124m-8-h100.json"};
  CHECK(report.at("step_time_ps") == json::parse(golden).at("step_time_ps"));

  json changed = small_job;
  changed["set"] = {{"layout.micro_batch", 2}, {"layout.sequence_parallel", false}};
  const json other = json::parse(service.answer(posted("/v1/forecast", changed)).body);
  CHECK(other.at("step_time_ps") != report.at("step_time_ps"));

  WebRequest page = posted("/v1/forecast", small_job);
  page.wants_page = true;
  const WebAnswer shown = service.answer(page);
  CHECK(shown.type == "text/html");
  CHECK_THAT(shown.body, contains_text("<!doctype html>"));
}

TEST_CASE("server: a scenario may be sent as text") {
  WebService service;
  std::ifstream file{test::source_dir() + "/scenarios/gpt2-124m-8-h100.yaml"};
  std::string text{std::istreambuf_iterator<char>{file}, {}};
  for (const auto& [from, to] : {std::pair{"../models/gpt2.yaml", "gpt2"},
                                 std::pair{"../topologies/dgx-h100.yaml", "dgx-h100"}})
    if (const std::size_t at = text.find(from); at != std::string::npos)
      text.replace(at, std::string{from}.size(), to);
  const WebAnswer answer = service.answer(posted("/v1/forecast", {{"text", text}}));
  INFO(answer.body);
  REQUIRE(answer.status == 200);
  const json named = json::parse(service.answer(posted("/v1/forecast", small_job)).body);
  CHECK(json::parse(answer.body).at("step_time_ps") == named.at("step_time_ps"));
}

TEST_CASE("server: no file but shipped ones is read, whether it is there or not") {
  const std::string secret = test::temporary_path("secret.yaml").string();
  std::ofstream{secret} << "name: SECRET\n";
  WebService service;
  for (const std::string& path :
       {secret, std::string{"/etc/passwd"}, std::string{"/etc/not-there"},
        std::string{"../../../../etc/passwd"}, std::string{"../README"}, std::string{""}})
    for (const json& asked :
         {json{{"scenario", path}},
          json{{"scenario", "gpt2-124m-8-h100"}, {"set", {{"model", path}}}},
          json{{"scenario", "gpt2-124m-8-h100"}, {"set", {{"cluster.path", path}}}},
          json{{"scenario", "gpt2-124m-8-h100"}, {"set", {{"simulation.anchor", path}}}},
          json{{"scenario", "gpt2-124m-8-h100"}, {"set", {{"training.data", path}}}},
          json{{"text", "name: x\nmodel: " + path + "\ncluster: " + path + "\n"}},
          json{{"model", path}, {"cluster", path}, {"gpus", 8}, {"batch", 8}}}) {
      INFO(asked.dump());
      const char* to = asked.contains("gpus") ? "/v1/search" : "/v1/forecast";
      const WebAnswer answer = service.answer(posted(to, asked));
      CHECK_THAT(answer.body, !contains_text("SECRET"));
      CHECK_THAT(answer.body, !contains_text("root:"));
      if (asked.dump().find("training.data") == std::string::npos) CHECK(answer.status == 422);
    }
  const auto refusal = [&](const std::string& path) {
    std::string text = message_of(service.answer(
        posted("/v1/forecast", {{"scenario", "gpt2-124m-8-h100"}, {"set", {{"model", path}}}})));
    return text.substr(text.find(": error"), 50);
  };
  CHECK(refusal("/etc/passwd") == refusal("/etc/not-there"));
  CHECK_THAT(refusal("/etc/passwd"), contains_text("only shipped files"));
  std::filesystem::remove(secret);
}

TEST_CASE("server: what it reads of a scenario's file is not limited once the guard is gone") {
  const std::string path = test::temporary_path("a.yaml").string();
  {
    const ShippedOnly shipped;
    CHECK_THROWS(check_readable(path));
    CHECK_NOTHROW(check_readable(test::source_dir() + "/models/gpt2.yaml"));
    CHECK_THROWS(check_readable(test::source_dir() + "/models/../README.md"));
  }
  CHECK_NOTHROW(check_readable(path));
}

TEST_CASE("server: a search runs behind the answers, and leaves its result") {
  WebService service;
  const WebAnswer started = service.answer(posted("/v1/search", small_search));
  REQUIRE(started.status == 202);
  const std::string id = json::parse(started.body).at("id");
  const json end = ended(service, id);
  CHECK(end.at("state") == "done");
  CHECK(end.at("result").at("best").size() > 1);
  WebRequest page = got("/v1/search/" + id);
  page.wants_page = true;
  CHECK_THAT(service.answer(page).body, contains_text("<!doctype html>"));
  CHECK(service.answer(got("/v1/search/77")).status == 404);
  CHECK(service.answer(got("/v1/search/1x")).status == 404);
}

TEST_CASE("server: a search is stopped, and no more run at once than may") {
  WebService service{{}, {.searches = 1}};
  const json large{{"model", "llama-3.1-70b"},
                   {"cluster", "dgx-h100"},
                   {"gpus", 512},
                   {"batch", 512},
                   {"sequence", 8192}};
  const std::string id = json::parse(service.answer(posted("/v1/search", large)).body).at("id");
  CHECK(service.answer(posted("/v1/search", small_search)).status == 429);
  WebRequest stop = got("/v1/search/" + id);
  stop.method = "DELETE";
  CHECK(service.answer(stop).status == 200);
  CHECK(ended(service, id).at("state") == "stopped");
  const WebAnswer next = service.answer(posted("/v1/search", small_search));
  CHECK(next.status == 202);
}

TEST_CASE("server: old results make room") {
  WebService service{{}, {.searches = 2, .kept_searches = 2}};
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(json::parse(service.answer(posted("/v1/search", small_search)).body).at("id"));
    ended(service, ids.back());
  }
  CHECK(service.answer(got("/v1/search/" + ids[0])).status == 404);
  CHECK(service.answer(got("/v1/search/" + ids[2])).status == 200);
}

TEST_CASE("server: forecasts that take too long are given up") {
  WebService service{{}, {.forecast = std::chrono::seconds{0}, .forecasts = 1}};
  // Zero is no limit.
  CHECK(service.answer(posted("/v1/forecast", small_job)).status == 200);
  WebService none{{}, {.forecasts = 0}};
  CHECK(none.answer(posted("/v1/forecast", small_job)).status == 429);
}

TEST_CASE("server: a request for another host, or without the token, is refused") {
  WebService open;
  WebRequest foreign = got("/v1/models");
  CHECK(open.answer(foreign).status == 200);
  foreign.host = "attacker.example:8080";
  CHECK(open.answer(foreign).status == 401);
  WebService closed{"0123456789abcdef"};
  CHECK(closed.answer(got("/v1/models")).status == 401);
  for (const auto& [text, status] :
       {std::pair{"Bearer 0123456789abcdef", 200}, std::pair{"Bearer 0123456789abcdee", 401},
        std::pair{"Bearer 0123456789abcde", 401}, std::pair{"Bearer ", 401}, std::pair{"", 401},
        std::pair{"0123456789abcdef", 401}}) {
    WebRequest request = got("/v1/models");
    request.host = "cluster.example";
    request.authorization = text;
    INFO(text);
    CHECK(closed.answer(request).status == status);
  }
  CHECK(closed.answer(got("/")).status == 200);  // the form, which asks for it
}

TEST_CASE("server: what makes no sense is told") {
  WebService service;
  const auto status = [&](const std::string& body) {
    WebRequest request = posted("/v1/forecast", {});
    request.body = body;
    return service.answer(request).status;
  };
  for (const char* body :
       {"", "{", "[]", "null", "7", "{\"scenario\": 7}", "{\"scenario\": null}", "{}",
        "{\"scenario\": \"gpt2-124m-8-h100\", \"more\": 1}", "{\"text\": \"a: b: c\"}",
        "{\"text\": \"\"}", "{\"scenario\": \"gpt2-124m-8-h100\", \"set\": []}",
        "{\"scenario\": \"gpt2-124m-8-h100\", \"set\": {\"layout.micro_batch\": {}}}",
        "{\"scenario\": \"gpt2-124m-8-h100\", \"set\": {\"layout.micro\": 1}}",
        "{\"scenario\": \"gpt2-124m-8-h100\", \"set\": {\"layout.micro_batch\": -1}}",
        "{\"scenario\": \"gpt2-124m-8-h100\", \"set\": {\"\": 1}}", "\xff\xfe"}) {
    INFO(body);
    CHECK(status(body) == 422);
  }
  CHECK(status(std::string(std::size_t{2} << 20, ' ')) == 413);
  WebRequest form = posted("/v1/forecast", small_job);
  form.content_type = "text/plain";  // what a page elsewhere can send unasked
  CHECK(service.answer(form).status == 415);
  CHECK(service.answer(got("/v1/forecast")).status == 405);
  CHECK(service.answer(got("/../etc/passwd")).status == 404);
  CHECK(service.answer(got("/v1/nothing")).status == 404);
  CHECK_THAT(message_of(service.answer(posted("/v1/forecast", {{"scenario", "gpt2-124m-8-h10"}}))),
             contains_text("gpt2-124m-8-h100"));
}

TEST_CASE("server: the interface that it tells is the one that it has") {
  WebService service;
  const json told = json::parse(service.answer(got("/v1/openapi.json")).body);
  for (const auto& [path, methods] : told.at("paths").items())
    for (const auto& [method, what] : methods.items()) {
      if (method == "parameters") continue;
      WebRequest request = method == "post" ? posted(path, json::object()) : got(path);
      if (method == "delete") request.method = "DELETE";
      INFO(method << " " << path);
      const int status = service.answer(request).status;
      CHECK((path.find('{') == std::string::npos ? status == 200 || status == 422 : status == 404));
    }
  for (const char* path : {"/v1/models", "/v1/clusters", "/v1/scenarios"})
    CHECK(json::parse(service.answer(got(path)).body).size() > 5);
  CHECK(json::parse(service.answer(got("/v1/keys")).body).is_structured());
}

TEST_CASE("server: a thousand requests of many kinds are all answered") {
  WebService service;
  std::vector<std::jthread> clients;
  std::atomic<int> answered = 0, wrong = 0;
  for (int client = 0; client < 4; ++client)
    clients.emplace_back([&, client] {
      for (int i = 0; i < 250; ++i) {
        const int kind = (i + client) % 8;
        const WebAnswer answer =
            kind == 0 && i % 40 == 0 ? service.answer(posted("/v1/forecast", small_job))
            : kind < 4               ? service.answer(got("/v1/models"))
            : kind < 6 ? service.answer(posted("/v1/forecast", {{"scenario", std::string(i, 'x')}}))
                       : service.answer(got("/v1/search/" + std::to_string(i)));
        ++answered;
        if (answer.status >= 500 || answer.body.empty()) ++wrong;
      }
    });
  clients.clear();
  CHECK(answered == 1000);
  CHECK(wrong == 0);
}
