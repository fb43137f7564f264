// The arguments that Megatron-LM prints when a training starts (megatron/training/arguments.py,
// _print_args):
//   ------------------------ arguments ------------------------
//     adam_beta1 ...................................... 0.9
// in a log that may have anything in front of each line. The tree is that of flags, with "printed"
// beside them; None is left out. Of a name that is printed again (a restart) the last value counts.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "sim/scripts/script_parsers.hpp"
#include "sim/scripts/shell/shell_text.hpp"

namespace sim {
namespace {

constexpr std::string_view first_line = " arguments ------";
constexpr std::string_view last_line = "end of arguments ---";
constexpr std::string_view dots = " ...";
constexpr std::size_t widest = 44;  // longer names leave no room for three dots

// Names that are not those of their flags; `inverted`: the flag says the opposite.
struct Renamed {
  std::string_view name, flag;
  bool inverted = false;
};
constexpr std::array renamed{
    Renamed{"add_bias_linear", "--disable-bias-linear", true},
    Renamed{"bias_gelu_fusion", "--no-bias-gelu-fusion", true},
    Renamed{"bias_swiglu_fusion", "--no-bias-swiglu-fusion", true},
    Renamed{"bias_dropout_fusion", "--no-bias-dropout-fusion", true},
    Renamed{"apply_rope_fusion", "--no-rope-fusion", true},
    Renamed{"masked_softmax_fusion", "--no-masked-softmax-fusion", true},
    Renamed{"gradient_accumulation_fusion", "--no-gradient-accumulation-fusion", true},
    Renamed{"persist_layer_norm", "--no-persist-layer-norm", true},
    Renamed{"overlap_p2p_comm", "--no-overlap-p2p-communication", true},
    Renamed{"check_for_nan_in_loss_and_grad", "--no-check-for-nan-in-loss-and-grad", true},
    Renamed{"torch_fsdp2_reshard_after_forward", "--torch-fsdp2-no-reshard-after-forward", true},
    Renamed{"fp8_wgrad", "--no-fp8-wgrad", true},
    Renamed{"tp_comm_bulk_dgrad", "--disable-tp-comm-bulk-dgrad", true},
    Renamed{"tp_comm_bulk_wgrad", "--disable-tp-comm-bulk-wgrad", true},
    Renamed{"tp_comm_overlap_ag", "--disable-tp-comm-overlap-ag", true},
    Renamed{"tp_comm_overlap_rs", "--disable-tp-comm-overlap-rs", true},
    Renamed{"tp_comm_split_ag", "--disable-tp-comm-split-ag", true},
    Renamed{"tp_comm_split_rs", "--disable-tp-comm-split-rs", true},
    Renamed{"fp8", "--fp8-format"},
    Renamed{"fp4", "--fp4-format"},
};
// derived: arguments that training derives from others and prints beside them.
constexpr std::array<std::string_view, 6> derived{
    "encoder_num_layers", "encoder_seq_length",     "data_parallel_size",
    "params_dtype",       "consumed_train_samples", "transformer_pipeline_model_parallel_size"};

}  // namespace

std::string flag_of_argument(std::string_view name) {
  const auto row = std::ranges::find(renamed, name, &Renamed::name);
  if (row != renamed.end()) return std::string{row->flag};
  std::string flag = fmt::format("--{}", name);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

// True of an inverted flag is False; AttnBackend.flash is flash, torch.bfloat16 bf16.
std::string value_of_argument(std::string_view name, std::string_view value) {
  const auto row = std::ranges::find(renamed, name, &Renamed::name);
  if (row != renamed.end() && row->inverted) {
    if (value == "True") return "False";
    if (value == "False") return "True";
  }
  if (value.starts_with("AttnBackend.")) return std::string{value.substr(12)};
  if (value == "torch.float32") return "fp32";
  if (value == "torch.bfloat16") return "bf16";
  if (value == "torch.float16") return "fp16";
  return std::string{value};
}

namespace {

struct Argument {
  std::string_view name, value;
  std::size_t column = 0;
};

bool is_name(std::string_view text) {
  return !text.empty() && shell_name_length(text) == text.size();
}

std::string_view last_word(std::string_view text) {
  const std::size_t blank = text.find_last_of(" \t:]");
  return blank == std::string_view::npos ? text : text.substr(blank + 1);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_shell_blank(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && is_shell_blank(text.back()))
    text.remove_suffix(1);
  return text;
}

// "name ........ value"; an empty name where the line is none of the block.
Argument argument_of(std::string_view line) {
  if (const std::size_t at = line.find(dots); at != std::string_view::npos) {
    const std::string_view name = last_word(line.substr(0, at));
    const std::size_t behind = std::min(line.find_first_not_of('.', at + 1), line.size());
    if (is_name(name) && (behind == line.size() || line[behind] == ' '))
      return {name, trimmed(line.substr(behind)), at - name.size()};
  }
  // A long name with two dots, one, or none in front of its value.
  const std::string_view whole = trimmed(line);
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t end = std::min(whole.find(' ', at), whole.size());
    const std::string_view word = whole.substr(at, end - at);
    if (word.size() >= widest && is_name(word)) {
      std::string_view value = trimmed(whole.substr(end));
      while (value.starts_with('.') && value.find(' ') < 3)
        value = trimmed(value.substr(value.find(' ')));
      return {word, value, static_cast<std::size_t>(word.data() - line.data())};
    }
    at = end + 1;
  }
  return {};
}

// ['a', 'b'] is a list of texts.
void add_value(Tree& tree, TextPlace place, const std::string& text) {
  if (!text.starts_with("['") || !text.ends_with("']")) {
    tree.add_scalar(place, ValueKind::plain, text);
    return;
  }
  tree.open(place, ValueKind::list);
  std::string_view rest = std::string_view{text}.substr(1, text.size() - 2);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    std::string_view item = trimmed(rest.substr(0, end));
    while (item.starts_with('\''))
      item.remove_prefix(1);
    while (item.ends_with('\''))
      item.remove_suffix(1);
    tree.add_scalar(place, ValueKind::plain, item);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  tree.close();
}

// Calls visit(line number, line) for each line within a block, or each where there is no mark.
template <class Visit>
void for_each_line(std::string_view text, Visit visit) {
  const bool marked = text.find(first_line) != std::string_view::npos;
  bool inside = !marked;
  std::int32_t number = 1;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (marked && line.find(last_line) != std::string_view::npos)
      inside = false;
    else if (marked && line.find(first_line) != std::string_view::npos)
      inside = true;
    else if (inside)
      visit(number, line);
  }
}

}  // namespace

bool is_arguments_block(std::string_view text) {
  int found = 0, other = 0;
  const bool marked = text.find(first_line) != std::string_view::npos;
  for_each_line(text, [&](std::int32_t, std::string_view line) {
    if (trimmed(line).empty()) return;
    ++(argument_of(line).name.empty() ? other : found);
  });
  return found >= 3 && (marked || found > other);
}

void parse_arguments_block_into(Tree& tree) {
  struct Entry {
    TextPlace name, value;
    std::string text;
  };
  std::map<std::string, Entry> entries;
  std::vector<std::string> order;
  for_each_line(tree.source(), [&](std::int32_t number, std::string_view line) {
    const Argument argument = argument_of(line);
    if (argument.name.empty() || argument.value == "None" || argument.value.empty() ||
        std::ranges::find(derived, argument.name) != derived.end())
      return;
    const TextPlace name{number, static_cast<std::int32_t>(argument.column)};
    const TextPlace value{number, static_cast<std::int32_t>(argument.value.data() - line.data())};
    const auto [entry, added] = entries.insert_or_assign(
        std::string{argument.name}, Entry{name, value, std::string{argument.value}});
    if (added) order.push_back(entry->first);
  });
  tree.open({1, 0}, ValueKind::object);
  tree.add_key({1, 0}, "printed");
  tree.add_scalar({1, 0}, ValueKind::plain, "true");
  for (const std::string& name : order) {
    const Entry& entry = entries.at(name);
    tree.add_key(entry.name, flag_of_argument(name));
    add_value(tree, entry.value, value_of_argument(name, entry.text));
  }
  tree.close();
}

}  // namespace sim
