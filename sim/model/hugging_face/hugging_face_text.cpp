// The language model in a config.json of several modalities (transformers, configuration_utils.py,
// get_text_config).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "sim/model/hugging_face/hugging_face_architecture.hpp"
#include "sim/model/hugging_face/hugging_face_fields.hpp"

namespace sim {
namespace {

// The parts of a wrapper that are no language model.
std::vector<std::string> other_parts(const ObjectReader& root) {
  std::vector<std::string> parts;
  for (const std::string& key : root.keys())
    for (const char* part : {"vision_config", "audio_config", "speech_config", "image_config",
                             "visual", "vision_tower", "mm_vision_tower"})
      if (key == part && !(key == "vision_config" && reads_vision(root))) parts.push_back(key);
  return parts;
}

std::string name_of(const ObjectReader& root) {
  if (const auto type = root.find("model_type"))
    if (const std::optional<std::string> text = type->peek_text()) return *text;
  return "this model";
}

}  // namespace

HuggingFaceText hugging_face_text(const Document& document, const ObjectReader& root) {
  const std::vector<std::string> parts = other_parts(root);
  const std::string left_out =
      parts.empty() ? std::string{"other modalities"} : fmt::format("{}", fmt::join(parts, ", "));
  if (!root.has("text_config")) {
    std::string note;
    if (!parts.empty())
      note = fmt::format(
          "{}: the language model alone; neither parameters nor time of {} are in the forecast",
          name_of(root), left_out);
    return {root, std::move(note)};
  }
  const ObjectReader text = root.object("text_config");
  text.ignore_unknown();
  if (!text.has("model_type") && !text.has("architectures")) {
    text.problem(
        "text_config names neither \"model_type\" nor \"architectures\"; add the "
        "model_type of the language model, such as \"llama\"");
    document.finish();
  }
  if (reads_vision(root) && parts.empty()) return {text, {}};
  const char* read = reads_vision(root) ? "" : " alone";
  return {text, fmt::format("{}: the language model of text_config{}; neither parameters nor "
                            "time of {} are in the forecast",
                            name_of(root), read, left_out)};
}

}  // namespace sim
