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

// A figure of a headline, with a line below it; empty: none.
struct HtmlFigure {
  std::string name, value, below{};
};
std::string html_figures(const std::vector<HtmlFigure>& figures);

// A part of a whole as a bar, with its figures beside it.
struct HtmlBar {
  std::string name, value;
  double share = 0;      // of the longest bar's width, 0 to 1
  std::string colour{};  // "#0072b2"; empty: that of text
  std::string note{};    // "79.2 %"
  double from = 0;       // where it begins, as a share of that width
};
std::string html_bars(const std::string& caption, const std::vector<HtmlBar>& bars);

// A bar of parts side by side, each with its own text under the mouse.
struct HtmlStackPart {
  std::string name;
  double share = 0;  // of the longest bar's width
  std::string colour, text;
};
struct HtmlStack {
  std::string name, value;
  std::vector<HtmlStackPart> parts{};
};
// html_stacks() has a legend below the bars, of the parts that they have.
std::string html_stacks(const std::string& caption, const std::vector<HtmlStack>& stacks);

}  // namespace sim
