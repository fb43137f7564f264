// Single values of the files of other programs, which write them more freely than ours: True for
// true, 5e8 for 500000000. A value that is absent or null leaves the setting as it is.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "sim/interop/megatron/megatron_config.hpp"
#include "sim/interop/verdicts.hpp"

namespace sim {

void read_setting(const ObjectReader& from, std::string_view key, Whole& into);
void read_setting(const ObjectReader& from, std::string_view key, Real& into);
void read_setting(const ObjectReader& from, std::string_view key, Flag& into);
void read_setting(const ObjectReader& from, std::string_view key, Text& into);  // lists: joined

// Whether CUDA graphs are on, by a word as --cuda-graph-impl has it.
void read_graph_switch(const ObjectReader& from, std::string_view key, Imported& result);
// read_graph_scope() reads what CUDA graphs capture: words of GraphModule; "full" and
// "full_iteration" are the whole step, for which an empty list stands, too (per layer, Megatron-LM
// captures nearly that). It reads the first of `keys` that is there; nothing without graphs.
void read_graph_scope(const ObjectReader& from, std::array<std::string_view, 2> keys,
                      Imported& result);
// The fused choice of experts, of steps whose host issues it: left out, with a note. REQUIRES: what
// graphs capture is read.
void leave_single_choice(Imported& result);

// The names of a list that stands in one text: "a b", "a,b", "[a b]", "['a', 'b']", over lines,
// too.
std::vector<std::string> names_in(std::string_view text);
// The object at `key`; another value that switches something on is a problem.
std::optional<ObjectReader> section_at(const ObjectReader& from, std::string_view key);
// read_peft() reads the section `peft` of Megatron-Bridge. `experts`: whether the model has some.
void read_peft(const ObjectReader& root, bool experts, Layout& layout, Imported& result);
// Whether a value switches nothing on: absent, null, false, 0, [], "", none, or `neutral`.
bool is_neutral(const ValueReader& value, std::string_view neutral);

// The end of every import: layout_problems(), then everything that was recorded is thrown.
void finish_import(const Document& document, const ObjectReader& root, const Imported& result);

}  // namespace sim
