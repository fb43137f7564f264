// A value of a file replaced by what-ifs: "fabric.oversubscription" is 2, "node.nics.bandwidth" is
// half of what the file says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sim {

struct Change {
  std::string key;    // through nested objects: "node.nics.bandwidth"
  std::string value;  // as it would be written in the file; "x0.5": that times the file's own value
  bool operator==(const Change&) const = default;
};

// "400 Gbps" times 0.5 is "200 Gbps". Empty where the text does not begin with a number.
std::string scaled_text(std::string_view text, double factor);

// Sets "key=value" among overrides of --set, where a key stands once.
void set_override(std::vector<std::string>& overrides, const std::string& key,
                  const std::string& value);

}  // namespace sim
