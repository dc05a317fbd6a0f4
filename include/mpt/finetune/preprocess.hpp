// Converts a row's own columns to the columns that finetuning knows: prompt and response, or
// messages.
//
// LLM Foundry registers a function for some public data sets under the set's name. The same
// conversions are available here under that name and under the function's import path. A mapping
// {prompt: column, response: column} serves other sets. A Python function is not run: the error
// says how to convert the data with it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace mpt::finetune {

/// Converts a row to {"prompt", "response"} or {"messages"}; `location` is the row's, for errors.
using preprocessor =
    std::function<nlohmann::json(nlohmann::json const& row, std::string_view location)>;

/// The names of a row's columns as one text, for errors.
[[nodiscard]] std::string columns_of(nlohmann::json const& row);

/// The text of a column. Errors name the row's columns, or the type that was found.
[[nodiscard]] std::string const& text_column(nlohmann::json const& row, std::string const& name,
                                             std::string_view location);

/// The preprocessor registered for a public data set; empty when there is none.
[[nodiscard]] preprocessor registered_preprocessor_of(std::string_view set);

/// The preprocessor that a loader's preprocessing_fn names: a public data set, or one of LLM
/// Foundry's own functions by its import path. Error: another Python function; the message has the
/// command that converts the data with it.
[[nodiscard]] preprocessor named_preprocessor(std::string_view name);

/// Takes prompt and response from the columns of these names.
[[nodiscard]] preprocessor column_mapping(std::string prompt, std::string response);

}  // namespace mpt::finetune
