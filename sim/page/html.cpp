#include "sim/page/html.hpp"

#include <fmt/format.h>
#include <md4c-html.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace sim {
namespace {

void append_to(const MD_CHAR* text, MD_SIZE size, void* to) {
  static_cast<std::string*>(to)->append(text, size);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// Links and pictures are names of users that look like them: a link may be a script, and a picture
// is fetched. Their text stays.
void drop_links(std::string& html) {
  for (const std::string_view tag : {"<a ", "</a>", "<img "})
    for (std::size_t at = html.find(tag); at != std::string::npos; at = html.find(tag, at))
      html.erase(at, html.find('>', at) + 1 - at);
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text)
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  return out;
}

std::string html_of_markdown(const std::string& markdown) {
  std::string html;
  constexpr unsigned flags = MD_FLAG_TABLES | MD_FLAG_NOHTML;
  if (md_html(markdown.data(), static_cast<MD_SIZE>(markdown.size()), append_to, &html, flags, 0) !=
      0)
    throw std::runtime_error{"a report cannot be written as HTML"};
  // The page has <h1>, its sections <h2>.
  for (const auto& [from, to] : std::array{std::pair{"h2>", "h4>"}, std::pair{"h1>", "h3>"}})
    replace_all(html, from, to);
  drop_links(html);
  replace_all(html, "<table>", "<div class=\"frame\" tabindex=\"0\"><table>");
  replace_all(html, "</table>", "</table></div>");
  return html;
}

std::string html_figures(const std::vector<HtmlFigure>& figures) {
  std::string html = "<dl class=\"figures\">\n";
  for (const HtmlFigure& figure : figures)
    html += fmt::format(
        "<div><dt>{}</dt><dd><strong>{}</strong>{}</dd></div>\n", html_text(figure.name),
        html_text(figure.value),
        figure.below.empty() ? std::string{} : "<span>" + html_text(figure.below) + "</span>");
  return html + "</dl>\n";
}

std::string html_bars(const std::string& caption, const std::vector<HtmlBar>& bars) {
  std::string html = fmt::format(
      "<div class=\"frame\" tabindex=\"0\"><table class=\"bars\"><caption>{}"
      "</caption><tbody>\n",
      html_text(caption));
  for (const HtmlBar& bar : bars)
    html += fmt::format(
        "<tr><th scope=\"row\">{}</th><td class=\"number\">{}</td><td class=\"number\">{}</td>"
        "<td class=\"bar\"><span style=\"width:{:.2f}%{}{}\"></span></td></tr>\n",
        html_text(bar.name), html_text(bar.value), html_text(bar.note),
        100 * std::clamp(bar.share, 0.0, 1.0),
        bar.from > 0 ? fmt::format(";margin-left:{:.2f}%", 100 * bar.from) : std::string{},
        bar.colour.empty() ? std::string{} : fmt::format(";background:{}", bar.colour));
  return html + "</tbody></table></div>\n";
}

std::string html_stacks(const std::string& caption, const std::vector<HtmlStack>& stacks) {
  std::string html = fmt::format(
      "<div class=\"frame\" tabindex=\"0\"><table class=\"bars\"><caption>{}"
      "</caption><tbody>\n",
      html_text(caption));
  std::vector<HtmlStackPart> legend;
  for (const HtmlStack& stack : stacks) {
    html += fmt::format(
        "<tr><th scope=\"row\" class=\"long\">{}</th><td class=\"number\">{}</td><td "
        "class=\"bar stack\">",
        html_text(stack.name), html_text(stack.value));
    for (const HtmlStackPart& part : stack.parts) {
      html +=
          fmt::format("<span style=\"width:{:.2f}%;background:{}\" title=\"{}\"></span>",
                      100 * std::clamp(part.share, 0.0, 1.0), part.colour, html_text(part.text));
      if (std::ranges::none_of(legend, [&](const auto& of) { return of.name == part.name; }))
        legend.push_back(part);
    }
    html += "</td></tr>\n";
  }
  html += "</tbody></table></div>\n<ul class=\"legend\">";
  for (const HtmlStackPart& part : legend)
    html += fmt::format("<li><span style=\"background:{}\"></span>{}</li>", part.colour,
                        html_text(part.name));
  return html + "</ul>\n";
}

}  // namespace sim
