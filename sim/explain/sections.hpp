// Sections of a text for people: sentences and a table, as text and as Markdown.
#pragma once

#include <string>
#include <vector>

namespace sim {

struct TextSection {
  std::string title{};
  std::vector<std::string> sentences{};
  std::vector<std::string> head{};  // empty: no table
  std::vector<std::vector<std::string>> rows{};
};

std::string text_of(const std::vector<TextSection>& sections, bool color);
std::string markdown_of(const std::vector<TextSection>& sections);

// Words of numbers that several tables share.
std::string seconds_text(double seconds);  // 45.51 ms; a minus where it is below zero; "0"
std::string share_text(double share);      // 12.3 %

}  // namespace sim
