// A layout of a search in words and bars, beside another one.
#pragma once

#include <QString>

#include "ui/choose/layout_job.hpp"
#include "ui/charts/stacked_bars.hpp"
#include "ui/core/theme.hpp"

namespace ui {

// "tp 8 pp 16 v 2 dp 8 mb 1 interleaved sp".
QString title_of(const LayoutFacts& facts);
// "5.634 s, MFU 43.1 %, 402 tokens/s/GPU".
QString figures_of(const LayoutFacts& facts);
// "72.3 of 79.6 GiB: fits, and leaves the memory margin".
QString memory_of(const LayoutFacts& facts);

// Parts of the step, and memory of the fullest GPU by category; `other` may be null.
BarsShown parts_bars(const LayoutFacts& facts, const LayoutFacts* other, const QString& other_name,
                     const Theme& theme);
BarsShown memory_bars(const LayoutFacts& facts, const LayoutFacts* other, const QString& other_name,
                      const Theme& theme);

// Why it is faster or slower than the other, as rich text: what differs, the parts of the step that
// changed most, memory.
QString comparison_of(const LayoutFacts& facts, const LayoutFacts& other,
                      const QString& other_name);
// Every dimension with its value, as a rich-text table; those that differ are marked.
QString fields_of(const LayoutFacts& facts, const LayoutFacts* other);

}  // namespace ui
