#include "sim/serve/web_service.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/base/deadline.hpp"
#include "sim/base/input_error.hpp"
#include "sim/catalog/catalog.hpp"
#include "sim/config/data_files.hpp"
#include "sim/config/data_folder.hpp"
#include "sim/config/json_scan.hpp"
#include "sim/config/shipped_only.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/shown_ranks.hpp"
#include "sim/page/simulate_page.hpp"
#include "sim/serve/asked_job.hpp"

namespace sim {
namespace {

constexpr std::size_t largest_static = std::size_t{1} << 20;
constexpr std::string_view search_path = "/v1/search";

struct StaticFile {
  const char *path, *file, *type;
};
constexpr std::array static_files{
    StaticFile{"/", "data/serve/index.html", "text/html"},
    StaticFile{"/serve.js", "data/serve/serve.js", "text/javascript"},
    StaticFile{"/page.css", "data/page/page.css", "text/css"},
    StaticFile{"/v1/openapi.json", "data/serve/openapi.json", "application/json"}};

struct NameList {
  const char *path, *kind;
};
constexpr std::array name_lists{NameList{"/v1/scenarios", "scenarios"},
                                NameList{"/v1/models", "models"},
                                NameList{"/v1/clusters", "topologies"}};

// Takes as long for every wrong token of the right length.
bool is_same(const std::string& a, const std::string& b) {
  unsigned char differs = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    differs = static_cast<unsigned char>(differs | (a[i] ^ b[i]));
  return differs == 0;
}

// A page elsewhere may point its own name at this machine, and its visitors' browsers then ask for
// it: the name tells.
bool is_own_name(std::string host) {
  const std::size_t port = host.rfind(':');
  if (port != std::string::npos && host.find(']', port) == std::string::npos) host.resize(port);
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

// One of a limited number of places; empty: all are taken.
class Place {
 public:
  Place(std::atomic<std::size_t>& taken, std::size_t most) : taken_{taken} {
    if (++taken_ <= most) return;
    --taken_;
    has_ = false;
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    if (has_) --taken_;
  }
  explicit operator bool() const { return has_; }

 private:
  std::atomic<std::size_t>& taken_;
  bool has_ = true;
};

std::optional<WebAnswer> static_answer(const WebRequest& request) {
  for (const StaticFile& one : static_files)
    if (request.path == one.path)
      return WebAnswer{.type = one.type,
                       .body = load_text(program_data_file(one.file), largest_static)};
  for (const NameList& one : name_lists)
    if (request.path == one.path)
      return WebAnswer{.body = nlohmann::json(data_files(one.kind)).dump() + "\n"};
  if (request.path == "/v1/keys") return WebAnswer{.body = keys_json(key_catalog())};
  return std::nullopt;
}

bool is_json(const WebRequest& request) {
  return request.content_type.starts_with("application/json");
}

}  // namespace

WebAnswer web_error(int status, const std::string& message) {
  return {
      .status = status,
      .body = nlohmann::ordered_json{{"error", {{"status", status}, {"message", message}}}}.dump(
                  -1, ' ', false, nlohmann::json::error_handler_t::replace) +
              "\n"};
}

WebService::WebService(std::string token, WebLimits limits)
    : token_{std::move(token)},
      limits_{limits},
      searches_{limits.searches, limits.kept_searches, limits.search} {}

bool WebService::may_ask(const WebRequest& request) const {
  return token_.empty() ? is_own_name(request.host)
                        : is_same(request.authorization, "Bearer " + token_);
}

WebAnswer WebService::forecast_of(const WebRequest& request) {
  const Place place{forecasting_, limits_.forecasts};
  if (!place)
    return web_error(429, fmt::format("{} forecasts are made already", limits_.forecasts));
  const Deadline deadline{{}, limits_.forecast};
  const Scenario scenario = [&] {
    const ShippedOnly shipped;
    return load_scenario(asked_job(request.body));
  }();
  try {
    const Forecast made = forecast(scenario, {.what_if = true}, deadline.control());
    if (!request.wants_page) return {.body = to_json(made.report)};
    return {.type = "text/html",
            .body = simulate_page(made, scenario,
                                  one_rank_per_stage(scenario, *made.plan, made.timeline), {})};
  } catch (const Stopped&) {
    return web_error(503,
                     fmt::format("the forecast takes longer than {} s", limits_.forecast.count()));
  }
}

WebAnswer WebService::search_of(const WebRequest& request) {
  if (request.path == search_path) {
    if (request.method != "POST") return web_error(405, "a search is started by POST");
    return searches_.start(asked_job(request.body));
  }
  const std::string id = request.path.substr(search_path.size() + 1);
  if (request.method == "GET") return searches_.look(id, request.wants_page);
  if (request.method == "DELETE") return searches_.stop(id);
  return web_error(405, "a search is looked at by GET and stopped by DELETE");
}

WebAnswer WebService::route(const WebRequest& request) {
  if (request.body.size() > limits_.body)
    return web_error(413, fmt::format("a request has at most {} KiB", limits_.body >> 10));
  // The form is no secret: it asks for the token.
  const bool is_form = request.path.rfind("/v1/", 0) != 0;
  if (!is_form && !may_ask(request))
    return web_error(401, token_.empty() ? "ask this machine by its own name: localhost"
                                         : "send the token: Authorization: Bearer TOKEN");
  if (request.method == "GET" || request.method == "HEAD")
    if (std::optional<WebAnswer> answer = static_answer(request)) return *std::move(answer);
  if (request.method == "POST" && !is_json(request))
    return web_error(415, "send JSON: Content-Type: application/json");
  if (request.path == "/v1/forecast")
    return request.method == "POST" ? forecast_of(request)
                                    : web_error(405, "a forecast is asked for by POST");
  if (request.path == search_path || request.path.starts_with(std::string{search_path} + "/"))
    return search_of(request);
  return web_error(404, "there is no such page: GET /v1/openapi.json lists all");
}

WebAnswer WebService::answer(const WebRequest& request) noexcept {
  try {
    return route(request);
  } catch (const InputError& error) {
    return web_error(422, error.what());
  } catch (const std::bad_alloc&) {
    return web_error(503, "this needs more memory than there is");
  } catch (const std::exception& error) {
    return web_error(500, error.what());
  }
}

}  // namespace sim
