// A progress bar on terminals of every width.
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <mpt/console/progress.hpp>
#include <mpt/console/table.hpp>

namespace progress_test {

TEST_CASE("progress: a line is narrower than its terminal, and says the most important first") {
  struct row {
    int columns;
    std::string line;
  };
  std::string const text =
      "120/24000 ba  loss 3.123  left 1:23:45  12.3k tok/s  MFU 12.3%  1.2 GiB";
  for (auto const& [columns, line] :
       {row{0,
            "pretrain ━━━━━━━━━━··········  50%  120/24000 ba  loss 3.123  left 1:23:45  12.3k "
            "tok/s "
            " MFU 12.3%  1.2 GiB"},
        {101,
         "pretrain ━━━━━━━━━━··········  50%  120/24000 ba  loss 3.123  left 1:23:45  12.3k tok/s  "
         "MFU "
         "12.3%"},
        {97,
         "pretrain ━━━━━·····  50%  120/24000 ba  loss 3.123  left 1:23:45  12.3k tok/s  MFU "
         "12.3%"},
        {80, "pretrain ━━━━━·····  50%  120/24000 ba  loss 3.123  left 1:23:45  12.3k tok/s"},
        {60, "pretrain  50%  120/24000 ba  loss 3.123  left 1:23:45"},
        {40, "pretrain  50%  120/24000 ba  loss 3.123"},
        {39, "pretrain  50%  120/24000 ba"},
        {20, "pretrain  50%  "}})
    CHECK(mpt::console::progress_line("pretrain", 0.5, text, columns) == line);
  for (int columns = 16; columns < 200; ++columns)
    CHECK(std::cmp_less(
        mpt::console::width_of(mpt::console::progress_line("pretrain", 1, text, columns)),
        columns));
}

}  // namespace progress_test
