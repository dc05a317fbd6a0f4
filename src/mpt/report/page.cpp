#include <mpt/report/page.hpp>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string_view>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <mpt/console/plain_text.hpp>
#include <mpt/report/detail/sections.hpp>

namespace mpt::report {
namespace {

std::string title_of(std::vector<run_record> const& runs) {
  if (runs.size() == 1) return runs.front().name;
  std::string names;
  for (auto const& run : runs) names += (names.empty() ? "" : ", ") + run.name;
  constexpr std::size_t longest = 80;
  if (names.size() > longest) return fmt::format("{} runs", runs.size());
  return names;
}

/// Links to the sections that `body` has.
std::string navigation(std::string_view body) {
  std::string out = "<nav aria-label=\"Sections\">";
  for (auto const& [id, name] : {std::pair{"curves", "Curves"},
                                 {"metrics", "Metrics"},
                                 {"time", "Time"},
                                 {"memory", "Memory"},
                                 {"prediction", "Prediction"},
                                 {"row", "Table"},
                                 {"origin", "Start"},
                                 {"configuration", "Configuration"},
                                 {"samples", "Texts"},
                                 {"plan", "Plan"},
                                 {"console", "Console"},
                                 {"notes", "Notes"}})
    if (body.find(fmt::format("<section id=\"{}\"", id)) != body.npos)
      out += fmt::format("<a href=\"#{}\">{}</a>", id, name);
  return out + "</nav>";
}

/// A falling curve.
constexpr std::string_view icon =
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect "
    "width='16' height='16' rx='4' fill='%233565d8'/%3E%3Cpath d='M3 3c1 6 4 8 10 9' fill='none' "
    "stroke='white' stroke-width='2' stroke-linecap='round'/%3E%3C/svg%3E";

/// Nothing that the page holds may be fetched from a network, or sent there.
constexpr std::string_view policy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'";

}  // namespace

bool has_charts() { return !detail::chart_library.empty(); }

std::string page_of(std::vector<run_record> const& runs, std::string const& title) {
  std::vector<detail::shown_run> shown;
  for (auto const& run : runs) shown.push_back({&run, facts_of(run)});
  std::vector<run_facts*> facts;
  for (auto& run : shown) facts.push_back(&run.facts);
  bool const has_common_set = compare_by_common_set(facts);
  auto const name = title.empty() ? title_of(runs) : title;
  std::string body = detail::overview(shown, has_common_set);
  if (!has_charts())
    body +=
        "<p class=\"missing\">This page has tables alone: the program was built without the "
        "library that "
        "draws charts. To have them: apt-get install libjs-dygraphs, and build again.</p>\n";
  body += detail::figures(runs) + detail::all_metrics(runs) + detail::spent_time(shown) +
          detail::memory(shown) + detail::prediction(shown) + detail::published_table(shown) +
          detail::origin(shown) + detail::configuration(shown) + detail::samples(shown) +
          detail::plan_picture(shown) + detail::console_lines(shown) + detail::notes(shown);
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"{}\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n<title>{}</title>\n<style>\n",
      icon, policy, escape(name));
  out.append(detail::chart_library_styles).append("\n").append(detail::page_styles);
  out += fmt::format(
      "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">To the content</a>\n<header>"
      "<div><p class=\"kind\">{}</p><h1>{}</h1></div>{}</header>\n<main id=\"main\">\n",
      runs.size() == 1 ? "Training run" : fmt::format("{} training runs", runs.size()),
      escape(name), navigation(body));
  out += body;
  out += fmt::format(
      "</main>\n<footer>Made by <code>report</code> of ParallelLM on {:%Y-%m-%d %H:%M} UTC from "
      "{}.</footer>\n",
      fmt::gmtime(std::time(nullptr)),
      runs.size() == 1 ? "<code>" + escape(runs.front().folder.string()) + "</code>"
                       : fmt::format("{} folders", runs.size()));
  if (body.find("id=\"data\"") != body.npos) {  // there are charts to draw
    out.append("<script>\n").append(detail::chart_library).append("</script>\n");
    out.append("<script>\n").append(detail::page_script).append("</script>\n");
  }
  return out + "</body>\n</html>\n";
}

std::string escape(std::string_view text) {
  std::string out;
  for (char const c : console::plain_text(text)) switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  return out;
}

std::string json_in_script(nlohmann::ordered_json const& value) {
  constexpr bool only_ascii = true;
  std::string out;
  for (char const c :
       value.dump(-1, ' ', only_ascii, nlohmann::ordered_json::error_handler_t::replace)) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      out += i + k <= bytes.size() ? digits[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

}  // namespace mpt::report
