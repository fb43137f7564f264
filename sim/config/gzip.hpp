// gzip, as profilers write their traces.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sim {

bool is_gzip(std::string_view content);

// The text in a gzip file, all members of it. `name`: the name of the file, for messages. Throws
// InputError: it is cut off or damaged, or the text is larger than `limit` bytes.
std::string unpack_gzip(std::string_view content, const std::string& name, std::size_t limit);

// head_of_gzip: the first `most` bytes of the text, fewer where the file is cut off or damaged.
std::string head_of_gzip(std::string_view content, std::size_t most);

}  // namespace sim
