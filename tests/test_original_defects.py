"""What is known to be wrong in RD-Agent's FT-Agent, and the tests here that fail where we do the same.

A test is named by its file below `tests/` and its name. Where we have no such thing that could be wrong, `instead` says what
is there, and the tests show that.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PATENTS = "tools/scoring/scorers/test_panorama.py"
BIOLOGY = "tools/scoring/scorers/test_bioprobench.py"
TABLES = "tools/scoring/scorers/test_tablebench.py"
WORDS = "tools/benchmarks/test_words.py"
CHEMISTRY = "engines/opencompass/test_chem_scorers.py"
SETS = "tools/scoring/test_chemistry_and_code.py"
CHARTS = "tools/scoring/test_chart_matching.py"
KNOWLEDGE = "tools/benchmarks/test_knowledge.py"
LETTERS = "tools/scoring/scorers/test_knowledge_scorers.py"
STOCK = "tools/benchmarks/test_stock_defects.py"
GATE = "tools/data_gate/test_gate.py"
LENGTHS = "tools/data_gate/test_lengths.py"
FETCH = "tools/hub/test_fetch.py"
REGISTERED = "tools/datasets/test_registered.py"
PROMISES = "tools/statistics/test_promises.py"
CONFINEMENT = "graph/test_job_confinement.py"
REPORT = "tools/report/test_report.py"


@dataclass(frozen=True)
class Defect:
    """One sentence on what the original does, and the tests (file, names) that would fail on it."""

    what: str
    tests: tuple[tuple[str, ...], ...]
    instead: str = ""

    @property
    def named(self) -> list[tuple[str, str]]:
        """File and name of each test."""
        return [(file, name) for file, *names in self.tests for name in names]


SCORING = (
    Defect(
        "Any letter A to H that stands alone in a reply answers PAR4PC, the article A too.",
        ((PATENTS, "test_the_article_is_no_answer", "test_which_patents_a_reply_names"),),
    ),
    Defect("F1 of counts that were pooled is called macro F1.", ((PATENTS, "test_f1_is_what_its_name_says"),)),
    Defect(
        "Silver answers of PAR4PC and PI4PC never reach their scorers, so that three metrics are one and half right is wrong.",
        (
            (PATENTS, "test_silver_patents_are_no_mistake_for_the_custom_score"),
            (PATENTS, "test_three_metrics_of_a_paragraph_differ"),
            (WORDS, "test_odd_rows_of_panorama"),
        ),
    ),
    Defect(
        "NOC4PC is measured on the replies that can be read; the others are no part of it.",
        (
            (PATENTS, "test_an_unreadable_code_stays_in_the_denominator"),
            (WORDS, "test_who_answers_one_item_and_is_silent_else_has_that_one_right"),
        ),
    ),
    Defect(
        "Prompts of more than 16,384 tokens are left out of the PANORAMA forms with reasoning, and not of the others.",
        ((WORDS, "test_no_prompt_is_left_out_for_its_length", "test_both_forms_of_a_task_have_the_same_items"),),
    ),
    Defect(
        "PQA, ORD and ERR of BioProBench leave replies that cannot be read out of accuracy, exact match, tau and F1.",
        (
            (BIOLOGY, "test_replies_that_cannot_be_read_count", "test_an_unreadable_order_is_the_worst"),
            (BIOLOGY, "test_one_lucky_answer_among_silence_is_not_perfect"),
            (WORDS, "test_who_answers_one_item_and_is_silent_else_has_that_one_right"),
        ),
    ),
    Defect(
        "PQA takes the text of a choice letter for letter alone: its letter, or another case, is wrong.",
        ((BIOLOGY, "test_which_choice_a_reply_names"),),
    ),
    Defect(
        "Steps and keywords of GEN are measured with models that may not be there, and vanish or are 0 without them.",
        (
            (
                "engines/opencompass/scorers/test_meaning.py",
                "test_what_is_missing_is_one_line_before_anything_is_fetched",
            ),
            ("engines/opencompass/scorers/test_meaning.py", "test_steps_that_mean_the_same"),
            (WORDS, "test_who_answers_one_item_and_is_silent_else_has_that_one_right"),
        ),
    ),
    Defect(
        "A count of a molecule's parts that cannot be read is 0, and the error of a wrong one has no bound.",
        ((CHEMISTRY, "test_an_unreadable_count_is_the_worst_and_no_zero"),),
    ),
    Defect(
        "Understanding molecules gives numbers of the whole and nothing of its items, so that no failure is ever shown.",
        ((CHEMISTRY, "test_every_item_has_its_own_verdict_and_failures_are_shown"),),
    ),
    Defect(
        "An edited molecule is right when one group more or less is counted, whatever else it is.",
        ((CHEMISTRY, "test_editing", "test_answers_that_the_original_accepts_are_distinguished"),),
    ),
    Defect(
        "Any molecule with more of a property is a success, one long chain for every source.",
        ((CHEMISTRY, "test_optimising"),),
    ),
    Defect(
        "The oracles for drd, gsk and jnk are not installed, so that every reply is a miss.",
        (
            (SETS, "test_what_no_oracle_is_there_for_is_left_out_and_named"),
            ("engines/opencompass/scorers/test_oracles.py", "test_without_the_very_files_nothing_is_asked"),
        ),
    ),
    Defect(
        "Products are compared by one InChI of the mixture, and similarities leave out what is no molecule.",
        ((CHEMISTRY, "test_reactions", "test_what_is_no_molecule_counts_in_every_metric"),),
    ),
    Defect(
        "Reaction conditions are compared in small letters, and read from other keys than the task asks for.",
        ((CHEMISTRY, "test_reactions"),),
    ),
    Defect(
        "Of conditions and next steps, reasons before JSON without a fence make the whole reply the answer.",
        ((CHEMISTRY, "test_reactions"),),
    ),
    Defect(
        "Exact match on tables drops signs, decimal points and percent signs.",
        ((TABLES, "test_exact_match_keeps_sign_decimals_and_percent"),),
    ),
    Defect(
        "Within ten percent is said of the first number of each side, whichever that is.",
        ((TABLES, "test_ten_percent_are_of_the_number_that_was_asked"),),
    ),
    Defect(
        "Open questions on tables are all questions once more, by ROUGE-L, and the mean is of both.",
        (
            (WORDS, "test_data_analysis_question_has_one_metric"),
            (TABLES, "test_each_item_is_measured_once_by_its_own_metric"),
        ),
    ),
    Defect(
        "Charts are seen where plt.bar, plt.plot or plt.scatter draws them, and nowhere else.",
        (("engines/answers/test_draw_answer.py", "test_what_was_drawn_is_found"),),
    ),
    Defect(
        "A series that is no list is skipped, and 0.01 is near enough for numbers of any size.",
        (
            (CHARTS, "test_a_series_that_is_no_list_of_numbers_is_wrong", "test_numbers_agree_by_their_own_size"),
            (CHARTS, "test_whatever_is_said_to_be_drawn_is_judged"),
        ),
    ),
    Defect(
        "Of a reply to FinanceIQ some capital letter is the answer, and its page speaks of a judge that it has not.",
        (
            (LETTERS, "test_letters_in_chinese_replies"),
            (STOCK, "test_where_the_stock_scorer_errs_ours_does_not"),
            ("cli/test_docs.py", "test_the_benchmarks_page_says_what_is_declared"),
        ),
    ),
    Defect(
        "The judge of AIME 2025 is asked for A or B and for CORRECT or INCORRECT in one text.",
        (("tools/scoring/test_llm_judge.py", "test_a_verdict_is_one_last_line_or_nothing"),),
    ),
    Defect(
        "Replies on chemistry and mathematics end after 1,024 tokens, on mbpp after 512, where long reasoning is trained.",
        ((SETS, "test_replies_have_room_for_reasoning"),),
    ),
    Defect(
        "Prompts of ERR, ORD, FinanceIQ, PI4PC and charts forbid the explanation that every training record must have.",
        (
            (WORDS, "test_reasons_before_an_answer_cost_nothing"),
            (LETTERS, "test_letters_in_chinese_replies"),
            ("tools/scoring/test_code_results.py", "test_code_is_found"),
            (GATE, "test_answers_without_the_reasoning_that_is_asked_for_are_named"),
        ),
    ),
)

EVALUATION = (
    Defect(
        "Validation and test are the first and the last items of one file; copies and shared contexts lie on both sides, and "
        "validation items with their answers are shown to agents that write training data.",
        (
            ("tools/benchmark_items/test_splitting.py", "test_sides_share_no_cluster_and_lose_no_item"),
            ("tools/benchmark_items/test_splitting.py", "test_the_same_question_in_another_dress_stays_on_its_side"),
            (KNOWLEDGE, "test_a_contest_of_another_year_is_the_validation_of_both"),
            (GATE, "test_validation_rows_are_named_sealed_rows_counted"),
        ),
    ),
    Defect(
        "Nothing looks for benchmark items in training data; a data set's folder holds the test answers, and scripts may read it.",
        (
            ("tools/contamination/test_planted.py", "test_items_are_found_in_every_form_of_every_mechanical_family"),
            ("mcp_servers/test_scope.py", "test_without_the_guard_test_items_would_be_trained_on"),
            (REGISTERED, "test_bioprobench_leaves_the_test_files_where_they_are"),
            (REGISTERED, "test_panorama_leaves_validation_and_test_where_they_are"),
            (CONFINEMENT, "test_what_is_right_is_in_the_final_job_only"),
            ("crash/test_canaries.py", "test_a_script_that_looks_for_them_tells_none"),
        ),
    ),
    Defect(
        "One run on fifteen items decides without an interval, so that noise is accepted.",
        (
            ("tools/scoring/test_verdicts.py", "test_scores_have_interval_parse_rate_and_items_in_order"),
            ("tools/statistics/test_paired.py", "test_claimed_wants_test_and_interval"),
            (PROMISES, "test_equal_model_is_claimed_in_at_most_one_of_forty"),
            (PROMISES, "test_best_of_ten_equal_candidates_is_not_claimed_more_often"),
            (REPORT, "test_first_line_for_higher_candidate_without_claim"),
            (KNOWLEDGE, "test_a_contest_of_another_year_is_the_validation_of_both"),
        ),
    ),
    Defect(
        "The page reads the test score of every loop and calls the highest the best.",
        (
            (REPORT, "test_best_is_promoted_and_experiments_have_no_test_score"),
            ("mcp_servers/test_scope.py", "test_no_server_opens_the_sealed_split"),
            ("tools/evaluation/test_test_access_log.py", "test_another_description_makes_no_new_test"),
            (CONFINEMENT, "test_each_job_reads_and_writes_what_the_table_says"),
        ),
    ),
    Defect(
        "Who rarely answers in the right form can look perfect.",
        (
            (WORDS, "test_who_answers_one_item_and_is_silent_else_has_that_one_right"),
            ("graph/test_whole_run.py", "test_scores_agree_with_their_items"),
        ),
    ),
    Defect(
        "Metrics are not what their names say: each case is one of those above; all through the real engine.",
        (
            (WORDS, "test_answerers_through_the_real_engine"),
            (KNOWLEDGE, "test_answerers_get_what_they_deserve"),
            (SETS, "test_answerers_get_what_they_are_worth"),
        ),
    ),
    Defect(
        "Limits of replies are too short for the reasoning that is asked for.",
        ((SETS, "test_replies_have_room_for_reasoning"),),
    ),
    Defect(
        "The page looks for metrics by names that the scorers no longer give; four of five parts of mol_und drop out.",
        (
            (CHEMISTRY, "test_every_item_has_its_own_verdict_and_failures_are_shown"),
            (SETS, "test_further_metrics_tell_what_the_original_would_have_said"),
        ),
        instead="No page has names of metrics: what decides is the mean of the items' values, whatever their part.",
    ),
    Defect(
        "Documents tell of another judge, split and repository than the code has.",
        (("cli/test_docs.py", "test_the_benchmarks_page_says_what_is_declared"),),
    ),
)

DATA = (
    Defect(
        "Size, length in tokens and reasoning of the records are wished for in prompts and checked by nobody.",
        (
            (GATE, "test_the_limit_is_named", "test_answers_that_training_would_cut_off_are_refused"),
            (GATE, "test_lengths", "test_answers_without_the_reasoning_that_is_asked_for_are_named"),
        ),
        instead="Too many rows and cut answers are refused; bare answers are named and no more, as some sources have no others.",
    ),
    Defect(
        "All data are never looked at before the training, only those of a try.",
        (
            (GATE, "test_the_last_of_many_records_is_looked_at_too", "test_every_row_is_kept_dropped_or_named"),
            ("graph/outcomes/test_repair.py", "test_the_culprits_author_learns_what_was_wrong_and_mends_it"),
            ("graph/test_whole_run.py", "test_every_decision_is_on_disk"),
        ),
    ),
    Defect(
        "Ten records are checked, and a script that wrote none need not fail.",
        (
            (GATE, "test_the_last_of_many_records_is_looked_at_too", "test_bad_data_is_refused"),
            ("tools/data_script/test_run.py", "test_script_without_output_has_failed"),
        ),
    ),
    Defect(
        "What models answered is paid again with every round, without a budget; a try runs again although nothing changed.",
        (
            ("tools/llm_proxy/test_endpoint.py", "test_repeatable_requests_are_cached", "test_limits"),
            ("tools/llm_proxy/test_kills.py", "test_repeated_job_uses_the_cache"),
            ("tools/data_script/test_run.py", "test_what_was_run_is_not_run_again_whatever_the_config_says"),
        ),
    ),
    Defect(
        "Tokens are counted with another model's tokenizer.",
        (
            (LENGTHS, "test_lengths_are_the_engine_s", "test_a_template_is_read"),
            ("tools/training/test_smoke_run.py", "test_the_longest_is_so_by_tokens"),
        ),
    ),
    Defect(
        "Failed attempts are told apart by their config instead of their script, and configs are not shown with the code.",
        (("graph/outcomes/test_repair.py", "test_the_culprits_author_learns_what_was_wrong_and_mends_it"),),
        instead="No attempt is filtered out: the author sees the very script and config that failed.",
    ),
    Defect(
        "A download that broke off counts as whole, no revision is pinned, and all sets are fetched though one is chosen.",
        (
            (FETCH, "test_kill_9_in_the_middle_costs_nothing_that_had_come", "test_the_revision_is_pinned"),
            (
                FETCH,
                "test_what_is_changed_on_the_way_is_never_believed",
                "test_a_file_of_another_size_is_never_believed",
            ),
            ("tools/hub/test_store.py", "test_what_a_kill_left_is_made_anew"),
            (REGISTERED, "test_only_what_was_asked_for_is_fetched"),
        ),
    ),
    Defect(
        "Only registered data sets can be used, and of all forms of records only one instruction with one output.",
        (
            ("tools/hub/test_datasets.py", "test_a_folder_and_a_file_stay_where_they_are"),
            (REGISTERED, "test_any_hub_id_and_any_revision_of_it"),
            ("tools/data_gate/test_records.py", "test_what_is_right_is_read", "test_system_and_judgement_are_kept"),
        ),
    ),
)


def found_in(file: str) -> dict[str, str]:
    """Names of a file's tests with their decorators."""
    body = ast.parse((TESTS / file).read_text(encoding="utf-8")).body
    functions = [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {f.name: " ".join(map(ast.unparse, f.decorator_list)) for f in functions if f.name.startswith("test_")}


@pytest.mark.parametrize("defect", [*SCORING, *EVALUATION, *DATA], ids=lambda defect: defect.what[:60])
def test_every_defect_has_tests_that_are_there(defect: Defect) -> None:
    assert defect.named
    for file, name in defect.named:
        found = found_in(file)
        assert name in found, f"{file} has no {name}: {defect.what}"
        assert "skip" not in found[name] and "xfail" not in found[name]


def test_a_test_that_is_not_there_would_be_noticed() -> None:
    with pytest.raises(AssertionError, match="has no test_nothing"):
        test_every_defect_has_tests_that_are_there(Defect("Nothing.", ((GATE, "test_nothing"),)))
