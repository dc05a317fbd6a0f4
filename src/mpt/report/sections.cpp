#include <mpt/report/detail/sections.hpp>

#include <fmt/format.h>

#include <mpt/report/page.hpp>

namespace mpt::report::detail {

std::string html_of(table const& content) {
  std::string out;
  if (!content.id.empty())
    out = fmt::format(
        "<label class=\"search\" hidden>Search <input type=\"search\" data-table=\"{}\" "
        "autocomplete=\"off\"><span role=\"status\"></span></label>",
        content.id);
  out += fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">"
      "<table{1}{2}><caption>{0}</caption><thead><tr>",
      escape(content.caption), content.has_text ? " class=\"text\"" : "",
      content.id.empty() ? "" : fmt::format(" id=\"{}\"", content.id));
  for (auto const& title : content.titles)
    out += fmt::format("<th scope=\"col\">{}</th>", escape(title));
  out += "</tr></thead><tbody>\n";
  for (auto const& row : content.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      out += i == 0 ? "<th scope=\"row\">" + row[i] + "</th>" : "<td>" + row[i] + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string section(std::string_view id, std::string_view title, std::string_view content) {
  return fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-title\"><h2 "
      "id=\"{0}-title\">{1}</h2>\n{2}</section>\n",
      id, title, content);
}

std::string run_label(std::vector<shown_run> const& runs, std::size_t run) {
  auto const name = escape(runs[run].record->name);
  if (runs.size() == 1) return name;
  return fmt::format("<span class=\"mark c{}\"></span>{}", run % 10, name);
}

std::string bar_of(std::vector<bar_part> const& parts, double whole) {
  std::string out = "<div class=\"bar\" aria-hidden=\"true\">";
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i].length > 0 && whole > 0)
      out +=
          fmt::format("<span class=\"{}\" style=\"width:{:.3f}%\" title=\"{}: {}\"></span>",
                      parts[i].colour.empty() ? fmt::format("p{}", i) : parts[i].colour,
                      100 * parts[i].length / whole, escape(parts[i].name), escape(parts[i].text));
  return out + "</div>";
}

std::string bar_legend(std::vector<std::string> const& names) {
  std::string out = "<ul class=\"legend\">";
  for (std::size_t i = 0; i < names.size(); ++i)
    out += fmt::format("<li><span class=\"mark p{}\"></span>{}</li>", i, escape(names[i]));
  return out + "</ul>\n";
}

}  // namespace mpt::report::detail
