// The catalogue: every key that a scenario file may have (but the sections `search` and `sweep`),
// and every key of the cluster's and the device's file that a what-if may change.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/config/key.hpp"

namespace sim {

// In the order of the sections and of the file.
const std::vector<Key>& key_catalog();

// nullptr: there is no such key.
const Key* find_key(std::string_view path);
// The same, or throws InputError with the nearest names.
const Key& require_key(std::string_view path);

// Keys whose path matches the pattern: "layout.*parallel", where * stands for any text; without *
// those whose path contains it. Empty: all.
std::vector<Key> matching_keys(std::string_view pattern);

// JSON Schema, draft 2020-12, of a scenario file, for editors: what key_catalog() says, and no key
// beside. What keys must have to go with each other it does not know. The sections `search` and
// `sweep` may have any keys.
std::string scenario_schema();

// SchemaOf is a kind of file that a schema is of.
enum class SchemaOf : std::uint8_t { scenario, cluster, device, model };
constexpr auto words_of(SchemaOf) {
  return std::array{Word{SchemaOf::scenario, "scenario"}, Word{SchemaOf::cluster, "cluster"},
                    Word{SchemaOf::device, "device"}, Word{SchemaOf::model, "model"}};
}
// file_schema() is that of a scenario, or of what key_catalog() says of another kind of file: the
// type and help of the keys that a scenario may change or carry, with any keys beside.
std::string file_schema(SchemaOf kind);

// keys_text() is for `stepcast keys`.
std::string keys_text(const std::vector<Key>& keys);
std::string keys_json(const std::vector<Key>& keys);
std::string keys_csv(const std::vector<Key>& keys);
std::string keys_markdown(const std::vector<Key>& keys);

}  // namespace sim
