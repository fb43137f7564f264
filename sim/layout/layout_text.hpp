// A layout in one line, and as JSON. Features that are off, and dimensions of one rank, are left
// out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sim/layout/layout.hpp"

namespace sim {

enum class LayoutForm : std::uint8_t {
  terms,     // "tp 8 pp 2 v 7 dp 32 mb 1 interleaved sp zero-1": all that a search varies
  summary,   // "tp 8 x pp 2 x dp 32, v 7, mb 1, ZeRO-1, sp": a point of a sweep
  sentence,  // "tp 8 x pp 2 x dp 32, interleaved x7, 16 micro-batches of 1, sequence parallel, ..."
};
std::string layout_text(const Layout& layout, LayoutForm form);

// "tensor_parallel 8, micro_batch 1": the fields that are not what Layout{} has, but for the number
// of replicas and the batch. Layouts of one text differ in nothing but their scale.
std::string replica_text(const Layout& layout);

// {"tensor_parallel": 8, "schedule": "1f1b"}: these fields (layout_fields.hpp), in this order.
std::string layout_json(const Layout& layout, std::span<const std::string_view> keys);

}  // namespace sim
