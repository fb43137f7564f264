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
  std::string title;  // of the tab, and the heading
  std::string lead;   // HTML below the heading: the headline
  std::vector<PageSection> sections{};
  std::string json{};      // the report, for scripts: <script id="report">
  std::string command{};   // that made it; empty: not shown
  std::string scenario{};  // the text of its file; empty: not shown
};

// html_page is the file. Style and script are data/page/; numbers are there without the script.
std::string html_page(const HtmlPage& page);

// The page of a command that has nothing but tables: its Markdown and its JSON.
std::string table_page(const std::string& title, const std::string& markdown,
                       const std::string& json, const std::string& command);

}  // namespace sim
