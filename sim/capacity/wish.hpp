// The wish of a plan of capacity: the work, where it may run, and within which time and money.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/economics/quantities.hpp"
#include "sim/search/workload.hpp"

namespace sim {

// Prices of a file (--prices): `gpu_hour: {dgx-h100: 2.50 USD}` and `kwh: 0.08 USD`, all in one
// currency.
struct PriceList {
  std::map<std::string, double> gpu_hour{};  // by cluster
  std::optional<double> kwh{};
  std::string currency{};
};
// Throws InputError.
PriceList load_prices(const std::string& path);

// Values of a wish from text: "2e12", "30d". Throw std::invalid_argument, with what is allowed.
double parse_tokens(const std::string& text);
Seconds parse_deadline(const std::string& text);

struct CapacityWish {
  std::string scenario{};  // the text of a scenario file, whose layout is still to be found
  std::string path{};      // that it stands for, in messages
  Workload workload{};     // instead; its cluster and GPUs are filled in
  std::vector<std::string> clusters{};  // names or files
  PriceList prices{};
  std::optional<double> tokens{};
  std::optional<Seconds> deadline{};
  std::optional<double> money{};  // in the currency of the prices
  double confidence = 0.9;        // chance to keep deadline and money
  int most_gpus = 1024;
  bool only_fewest = false;  // the fewest that fit, and no more
  bool offload = false;      // layouts with states on the host are looked at, too
};

}  // namespace sim
