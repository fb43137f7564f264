// The catalogue: every key that a scenario file may have (but the sections `search` and `sweep`),
// and every key of the cluster's and the device's file that a what-if may change.
#pragma once

#include <string>
#include <string_view>
#include <vector>

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

// keys_text() is for `stepcast keys`.
std::string keys_text(const std::vector<Key>& keys);
std::string keys_json(const std::vector<Key>& keys);
std::string keys_csv(const std::vector<Key>& keys);
std::string keys_markdown(const std::vector<Key>& keys);

}  // namespace sim
