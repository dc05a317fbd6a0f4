#include <mpt/data/byte_order_mark.hpp>

#include <array>
#include <utility>

namespace mpt::data {

std::size_t byte_order_mark(std::string_view text, std::string_view name) {
  using namespace std::string_view_literals;
  if (text.starts_with("\xEF\xBB\xBF"sv)) return 3;
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> unsupported_marks = {
      {{"\xFF\xFE\0\0"sv, "UTF-32"},
       {"\0\0\xFE\xFF"sv, "UTF-32"},
       {"\xFF\xFE"sv, "UTF-16"},
       {"\xFE\xFF"sv, "UTF-16"}}};
  for (auto const& [mark, encoding] : unsupported_marks)
    if (text.starts_with(mark))
      parallel::fail(name, ": is text in ", encoding,
                     " by its byte order mark, and UTF-8 is read; convert it: iconv -f ", encoding,
                     " -t UTF-8 IN > OUT");
  return 0;
}

}  // namespace mpt::data
