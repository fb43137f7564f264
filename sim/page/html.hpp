// Pieces of HTML.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sim {

std::string html_text(std::string_view text);  // with <, >, &, " and ' escaped

// Markdown as HTML: headings from <h3> on, tables in a frame that scrolls. Tables, lists, code and
// paragraphs are what the reports of the commands have; HTML in it is shown as text.
std::string html_of_markdown(const std::string& markdown);

// A part of a whole as a bar, with its figures beside it.
struct HtmlBar {
  std::string name, value;
  double share = 0;      // of the longest bar's width, 0 to 1
  std::string colour{};  // "#0072b2"; empty: that of text
  std::string note{};    // "79.2 %"
};
std::string html_bars(const std::string& caption, const std::vector<HtmlBar>& bars);

}  // namespace sim
