#include "sim/page/page.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/config/data_folder.hpp"
#include "sim/config/json_scan.hpp"
#include "sim/page/html.hpp"

namespace sim {
namespace {

constexpr std::size_t largest_page_part = std::size_t{1} << 20;

std::string page_part(const char* file) {
  return load_text(program_data_file(fmt::format("data/page/{}", file)), largest_page_part);
}

// JSON within a script ends at "</script>": a '<' is written as an escape, which JSON reads alike.
std::string json_in_script(std::string json) {
  for (std::size_t at = json.find('<'); at != std::string::npos; at = json.find('<', at + 6))
    json.replace(at, 1, "\\u003c");
  return json;
}

std::string copied_text(const char* id, const std::string& label, const std::string& text) {
  return fmt::format(
      "<div class=\"copied\"><button type=\"button\" data-copies=\"{0}\">Copy {1}</button>"
      "<pre id=\"{0}\" tabindex=\"0\">{2}</pre></div>\n",
      id, html_text(label), html_text(text));
}

std::string anchor_of(std::size_t section) {
  return fmt::format("part-{}", section + 1);
}

std::string contents(const std::vector<PageSection>& sections) {
  if (sections.size() < 3) return {};
  std::string html = "<nav aria-label=\"Contents\"><ul>";
  for (std::size_t i = 0; i < sections.size(); ++i)
    html +=
        fmt::format("<li><a href=\"#{}\">{}</a></li>", anchor_of(i), html_text(sections[i].title));
  return html + "</ul></nav>\n";
}

// A terminal's colours are left out: "\x1b[1;33m".
std::string without_colour(const std::string& text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at)
    if (text[at] == '\x1b')
      at = std::min(text.find('m', at), text.size());
    else
      plain += text[at];
  return plain;
}

}  // namespace

std::string html_page(const HtmlPage& page) {
  std::vector<PageSection> sections = page.sections;
  if (!page.scenario.empty())
    sections.push_back({"Scenario", copied_text("scenario", "the scenario", page.scenario)});
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light "
      "dark\">\n<title>{}</title>\n<style>\n{}</style>\n"
      "</head>\n<body>\n<header>\n<h1>{}</h1>\n{}</header>\n<main>\n",
      html_text(page.title), page_part("page.css"), html_text(page.title), page.lead);
  html += contents(sections);
  for (std::size_t i = 0; i < sections.size(); ++i)
    html += fmt::format(
        "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}"
        "</h2>\n{2}</section>\n",
        anchor_of(i), html_text(sections[i].title), sections[i].body);
  html += "</main>\n<footer>\n";
  if (!page.command.empty()) html += copied_text("command", "the command", page.command);
  html +=
      "<p>Made by Stepcast. The report is in this file, as JSON, in the element with the id "
      "<code>report</code>.</p>\n</footer>\n";
  if (!page.json.empty())
    html += fmt::format("<script type=\"application/json\" id=\"report\">{}</script>\n",
                        json_in_script(page.json));
  return html + fmt::format("<script>\n{}</script>\n</body>\n</html>\n", page_part("page.js"));
}

std::string text_page(const CommandText& of) {
  const std::string asked = of.command.substr(0, of.command.find(" -o html"));
  HtmlPage page{.title = asked, .json = of.json, .command = of.command};
  if (!of.picture.empty())
    page.sections.push_back({"Picture", "<div class=\"picture\">" + of.picture + "</div>\n"});
  page.sections.push_back(
      {"All figures",
       html_of_markdown(of.markdown) +
           "<details><summary>As a terminal shows it</summary>\n<pre tabindex=\"0\">" +
           html_text(without_colour(of.text)) + "</pre></details>\n"});
  return html_page(page);
}

}  // namespace sim
