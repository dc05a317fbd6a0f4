// A table of metrics, read back by the reader of CSV files.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/finetune/csv_rows.hpp>
#include <mpt/train/report/csv_file.hpp>
#include <mpt/yaml/node.hpp>
#include <parallel/support/files.hpp>
#include <support/file_size_limit.hpp>

namespace csv_file_test {

using nlohmann::json;

std::vector<json> rows_of(std::filesystem::path const& path) {
  mpt::finetune::csv_rows rows(path);
  std::vector<json> found;
  for (json row; rows.next(row);) found.push_back(row);
  return found;
}

TEST_CASE("csv: a cell is quoted where it has to be") {
  CHECK(mpt::csv_cell("0.5") == "0.5");
  CHECK(mpt::csv_cell("a,b") == "\"a,b\"");
  CHECK(mpt::csv_cell("say \"no\"\n") == "\"say \"\"no\"\"\n\"");
}

TEST_CASE("csv: records become rows, and new names columns that earlier rows leave blank") {
  test::temporary_folder const folder;
  auto const path = folder / "deep" / "m.csv";
  {
    mpt::csv_file table(path);
    table.add({{"time/batch", 1}, {"loss", 0.1}});
    table.add({{"time/batch", 1}, {"eval, c4", 2.5}, {"text", "a \"b\"\nc"}});
    table.add({{"time/batch", 2}, {"loss", 1e-30}});
    table.finish();
  }
  CHECK(test::read_all(path).starts_with("time/batch,loss,\"eval, c4\",text\r\n1,0.1,,\r\n"));
  {
    mpt::csv_file resumed(path);
    resumed.add({{"loss", 3}, {"time/batch", 3}, {"late", 7}});
  }
  auto const row = [](char const* batch, char const* loss, char const* eval, char const* text,
                      char const* late) {
    return json{
        {"time/batch", batch}, {"loss", loss}, {"eval, c4", eval}, {"text", text}, {"late", late}};
  };
  CHECK(rows_of(path) ==
        std::vector<json>{row("1", "0.1", "", "", ""), row("1", "", "2.5", "a \"b\"\nc", ""),
                          row("2", "1e-30", "", "", ""), row("3", "3", "", "", "7")});
  CHECK(!std::filesystem::exists(folder / "deep" / "m.csv.tmp"));
}

TEST_CASE("csv: a table that another run writes is refused, and loses none of its rows") {
  test::temporary_folder const folder;
  auto const path = folder / "m.csv";
  auto const problem = [&] {
    return test::message_of([&] { static_cast<void>(mpt::csv_file(path)); });
  };
  auto const message = "loggers.csv " + path.string() +
                       ": another run writes this table; give each run its own by "
                       "loggers.csv.filename=FILE";
  {
    mpt::csv_file table(path);
    table.add({{"time/batch", 1}, {"loss", 2}});
    CHECK(problem() == message);
    table.add({{"time/batch", 1}, {"eval", 3}});  // writes the file anew
    CHECK(problem() == message);
    table.add({{"time/batch", 2}, {"loss", 1}});
  }
  CHECK(problem() == "");
  CHECK(test::read_all(path) == "time/batch,loss,eval\r\n1,2,\r\n1,,3\r\n2,1,\r\n");
}

TEST_CASE("csv: a torn last row is cut off, wherever it was torn, and the table goes on") {
  test::temporary_folder const folder;
  auto const path = folder / "m.csv";
  std::string const header = "time/batch,\"a, b\",text\r\n";
  std::string const first = "1,0.5,\"x \"\"y\"\"\nz\"\r\n";
  std::string const second = "2,0.25,\"u\n,v\"\r\n";
  json const kept{{"time/batch", "1"}, {"a, b", "0.5"}, {"text", "x \"y\"\nz"}};
  json const added{{"time/batch", "3"}, {"a, b", "7"}, {"text", ""}};
  for (std::size_t length = 1; length <= header.size() + first.size() + second.size(); ++length) {
    CAPTURE(length);
    test::write_all(path, (header + first + second).substr(0, length));
    {
      mpt::csv_file table(path);
      table.add({{"time/batch", 3}, {"a, b", 7}});
      table.finish();
    }
    auto const rows = rows_of(path);
    // a line end of which half is there ends a row
    bool const has_first = length + 1 >= header.size() + first.size();
    bool const has_second = length + 1 >= header.size() + first.size() + second.size();
    REQUIRE(rows.size() == 1U + (has_first ? 1 : 0) + (has_second ? 1 : 0));
    if (has_first) CHECK(rows.front() == kept);
    if (length + 1 >= header.size())
      CHECK(rows.back() == added);
    else
      CHECK(rows.back() == json{{"time/batch", "3"}, {"a, b", "7"}});
  }
}

TEST_CASE("csv: a quote mark within a cell hides no rows, and a row that is cut off is told of") {
  test::temporary_folder const folder;
  auto const path = folder / "m.csv";
  std::string const rows = "time/batch,disk\r\n1,5\" disk\r\n2,\"8\"\" disk\"\r\n3,\"a\nb\"\r\n";
  test::write_all(path, rows + "4,\"torn\nh\x1b");
  {
    mpt::csv_file table(path);
    CHECK(table.take_notes() ==
          std::vector<std::string>{
              "loggers.csv " + path.string() +
              ": the last row had no end and was cut off: " + mpt::printable("4,\"torn\nh\x1b")});
    CHECK(table.take_notes().empty());
    table.add({{"time/batch", 5}, {"disk", 7}});
  }
  CHECK(test::read_all(path) == rows + "5,7\r\n");
  mpt::csv_file whole(path);
  CHECK(whole.take_notes().empty());
  CHECK(test::read_all(path) == rows + "5,7\r\n");
}

TEST_CASE("csv: a table that another program saved without a last line end keeps its last row") {
  test::temporary_folder const folder;
  auto const path = folder / "m.csv";
  test::write_all(path, "time/batch,loss\n1,0.5\n2,0.25");
  {
    mpt::csv_file table(path);
    CHECK(table.take_notes().empty());
    table.add({{"time/batch", 3}, {"loss", 7}});
  }
  CHECK(test::read_all(path) == "time/batch,loss\n1,0.5\n2,0.25\r\n3,7\r\n");
  test::write_all(path, "time/batch,loss\n1,0.5\n2");  // a part of a row
  mpt::csv_file const table(path);
  CHECK(test::read_all(path) == "time/batch,loss\n1,0.5\n");
}

TEST_CASE("csv: rows after a quote mark that is never closed are not cut off") {
  test::temporary_folder const folder;
  auto const path = folder / "m.csv";
  std::string const text = "time/batch,text\r\n1,a\r\n2,\"torn3,b\r\n4,c\r\n";
  test::write_all(path, text);
  CHECK(test::contains(test::message_of([&] { mpt::csv_file const table(path); }),
                       path.string() + ":3: a quote mark of this row is never closed, and rows "
                                       "follow it; mend it; choose another"));
  CHECK(test::read_all(path) == text);
}

TEST_CASE("csv: a file with something else stays as it is") {
  test::temporary_folder const folder;
  test::write_all(folder / "m.csv", "name,age\nx,1\n");
  CHECK(test::contains(test::message_of([&] { mpt::csv_file const table(folder / "m.csv"); }),
                       "holds something else than metrics; choose another loggers.csv.filename"));
  CHECK(test::read_all(folder / "m.csv") == "name,age\nx,1\n");
  for (std::string const text : {"name,age\nx,1", "name"}) {  // that end without a line end
    test::write_all(folder / "m.csv", text);
    CHECK(test::contains(test::message_of([&] { mpt::csv_file const table(folder / "m.csv"); }),
                         "holds something else than metrics"));
    CHECK(test::read_all(folder / "m.csv") == text);
  }
}

TEST_CASE("csv: `finish` reports lost rows, also those of a table that could not be written anew") {
  test::temporary_folder const folder;
  auto const path = folder / "m.csv";
  mpt::csv_file table(path);
  table.add({{"time/batch", 1}, {"loss", 1}});
  {
    test::file_size_limit const few_bytes(24);
    table.add({{"time/batch", 2}, {"late", 1}});
    table.add({{"time/batch", 3}, {"loss", 12345678}});
  }
  table.add({{"time/batch", 4}, {"loss", 1}});
  CHECK(test::contains(test::message_of([&] { table.finish(); }), "rows were lost"));
  auto const rows = rows_of(path);
  CHECK(rows.front() == json{{"time/batch", "1"}, {"loss", "1"}});
  CHECK(rows.back() == json{{"time/batch", "4"}, {"loss", "1"}});
}

}  // namespace csv_file_test
