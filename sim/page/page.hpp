// A page to send: one HTML file that needs no network and no other file.
#pragma once

#include <string>
#include <vector>

namespace sim {

struct PageSection {
  std::string title;
  std::string body;  // HTML
};

struct HtmlPage {
  std::string title;   // of the tab, and the heading
  std::string lead{};  // HTML below the heading: the headline
  std::vector<PageSection> sections{};
  std::string json{};      // the report, for scripts: <script id="report">
  std::string command{};   // that made it; empty: not shown
  std::string scenario{};  // the text of its file; empty: not shown
};

// html_page is the file. Style and script are data/page/; numbers are there without the script.
std::string html_page(const HtmlPage& page);

// The result of a command in its other forms.
struct CommandText {
  std::string text, markdown, json;
  std::string command;
  std::string picture{};  // SVG; empty: it has none
};
// text_page() is the page of a command without one of its own: its picture, all figures, and what
// it prints on a terminal.
std::string text_page(const CommandText& of);

}  // namespace sim
