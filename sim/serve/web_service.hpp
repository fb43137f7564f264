// The server's answers: forecasts, searches, names, and the page with its form.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>

#include "sim/serve/search_shelf.hpp"
#include "sim/serve/web.hpp"

namespace sim {

struct WebLimits {
  std::size_t body = std::size_t{1} << 20;  // bytes of a request
  std::chrono::seconds forecast{60}, search{600};
  std::size_t forecasts = 4, searches = 1;  // at a time
  std::size_t kept_searches = 16;
};

class WebService {
 public:
  // `token`: what clients must send; empty: none is asked for, and only requests to this machine's
  // own name are answered.
  explicit WebService(std::string token = {}, WebLimits limits = {});

  // Thread-safe; throws nothing. Paths are those of data/serve/openapi.json.
  WebAnswer answer(const WebRequest& request) noexcept;

  const WebLimits& limits() const { return limits_; }

 private:
  WebAnswer route(const WebRequest& request);
  WebAnswer forecast_of(const WebRequest& request);
  WebAnswer search_of(const WebRequest& request);
  bool may_ask(const WebRequest& request) const;

  const std::string token_;
  const WebLimits limits_;
  std::atomic<std::size_t> forecasting_ = 0;
  SearchShelf searches_;
};

}  // namespace sim
