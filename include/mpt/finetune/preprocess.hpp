// From a row's own columns to the columns that finetuning knows: prompt and response, or messages.
//
// LLM Foundry registers a function for some public sets, known there by the set's name; those are
// here, under that name and under the function's import path. A mapping {prompt: column, response:
// column} does for other sets. A Python function is not run: a message says how to convert with it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <parallel/core/error.hpp>

namespace mpt::finetune {

/// Makes {"prompt", "response"} or {"messages"} of a row; `where` is its place, for errors.
using preprocessor =
    std::function<nlohmann::json(nlohmann::json const& row, std::string_view where)>;

/// The names of a row's columns, for messages.
[[nodiscard]] std::string columns_of(nlohmann::json const& row);

/// The text of a column. Errors name the row's columns, or the type that was found.
[[nodiscard]] std::string const& text_column(nlohmann::json const& row, std::string const& name,
                                             std::string_view where);

/// The preprocessor registered for a public set; empty when none is.
[[nodiscard]] preprocessor registered_preprocessor_of(std::string_view set);

/// The preprocessor that a loader's preprocessing_fn names: a public set, or one of LLM Foundry's
/// own functions by its import path. Error: another Python function, with the command that
/// converts.
[[nodiscard]] preprocessor named_preprocessor(std::string_view name);

/// The preprocessor of a mapping {prompt: column, response: column}.
[[nodiscard]] preprocessor column_mapping(std::string prompt, std::string response);

}  // namespace mpt::finetune
