"""Claims that the code does not meet yet: what is wrong, and the tests that show it.

conftest.py marks these tests as strict expected failures: they show up as `x`, and one that begins
to pass fails the run until its line here is deleted. A name without brackets stands for all of a
test's cases.
"""

KNOWN_BUGS = {
    # policies
    "torch.export.load falls back to weights_only=False: a .pt2 executes code without --trust": [
        "test_programs.py::test_malicious_pickles_inside_an_exported_program_are_not_executed"
    ],
    "a policy with one output is broadcast to any number of actions": [
        "test_sb3.py::test_a_policy_for_another_environment_is_refused_with_the_environments_space"
        f"[{algorithm}: two actions instead of one]"
        for algorithm in ("SAC", "PPO")
    ],
    "a policy with fewer logits than the environment has actions is accepted": [
        "test_sb3.py::test_a_policy_for_another_environment_is_refused_with_the_environments_space"
        "[four keys instead of two]"
    ],
    "an MlpPolicy on images is rebuilt without SB3's division by 255": [
        "test_sb3.py::test_an_image_policy_is_not_taken_for_one_of_raw_pixels"
    ],
    "the mean of the observations is rounded to float32 before it is subtracted": [
        "test_sb3.py::test_normalisation_is_exact_where_the_mean_is_large_and_the_spread_small"
    ],
    "norm_obs=False in a VecNormalize pickle is ignored": [
        "test_sb3.py::test_a_wrapper_that_was_told_not_to_normalise_does_not"
    ],
    "BadZipFile, EOFError and UnpicklingError of statistics are let through": [
        "test_sb3.py::test_damaged_statistics_are_an_input_error[empty]",
        "test_sb3.py::test_damaged_statistics_are_an_input_error[truncated]",
        "test_sb3.py::test_a_truncated_vecnormalize_pickle_is_an_input_error",
    ],
    "a negative variance gives NaN": [
        "test_sb3.py::test_damaged_statistics_are_an_input_error[negative variance]"
    ],
    "a custom policy class is refused with --trust, too, although the refusal names --trust": [
        "test_sb3.py::test_with_trust_sb3_itself_loads_what_was_refused[custom policy class]"
    ],
    "RuntimeError and NotImplementedError of zipfile are let through": [
        "test_sb3.py::test_a_zip_with_flipped_bytes_is_an_input_error_or_the_same_policy"
    ],
    "the types of what an SB3 zip holds are not checked": [
        f"test_sb3.py::test_a_zip_with_the_wrong_content_is_an_input_error[{case}]"
        for case in (
            *("data is a list", "data is not text", "policy_kwargs is a number"),
            *("weights are a list", "a weight is a number", "no bias"),
        )
    ],
    "any word is accepted as the head of a stored policy": [
        "test_policy_files.py::test_a_header_that_makes_no_policy_is_an_input_error"
        "[an unknown head]"
    ],
    "a policy file is not in sys.modules while it runs": [
        "test_objects.py::test_a_file_may_define_dataclasses_under_postponed_annotations"
    ],
    "errors of a user's file have several lines, or are let through": [
        "test_objects.py::test_a_file_that_cannot_give_the_policy_is_an_input_error_of_one_line"
        f"[{case}]"
        for case in ("an error of two lines", "a file that leaves", "a factory that raises")
    ],
    "an attribute called `policy` replaces an object's own predict": [
        "test_objects.py::test_an_object_with_predict_keeps_its_own_predict_whatever_its_attributes"
    ],
    "sample=True is ignored for a Policy": [
        "test_objects.py::test_a_deterministic_policy_is_not_passed_off_as_a_sampled_one"
    ],
    "a wrong number of actions is reported without the environment's space": [
        "test_objects.py::test_actions_that_do_not_fit_are_an_input_error_with_the_environments_space"
        f"[{case}]"
        for case in ("nothing", "one action for all", "one action too many")
    ],
    # environments
    "every warning with `is out of date` is silenced, not only Gymnasium's": [
        "test_environments.py::test_other_warnings_still_get_through[calibration is out of date]"
    ],
    "lower-case ids ending in -v3 are compared with Meta-World's only": [
        "test_environments.py::test_an_unknown_id_names_the_nearest[hopper-v3-Hopper-v]",
        "test_environments.py::test_an_unknown_id_names_the_nearest[lunarlander-v3-LunarLander-v3]",
    ],
    "what is no id raises AttributeError": [
        "test_environments.py::test_what_is_no_id_is_an_input_error"
    ],
    "Shimmy without dm_control gives `did you mean` the very same id": [
        "test_environments.py::test_shimmy_without_dm_control_is_answered_with_the_remedy"
    ],
    "errors of an environment's constructor are let through": [
        "test_environments.py::test_an_environment_that_cannot_be_built_is_an_input_error"
    ],
    "a module of the working directory is found as a policy, but not as an environment": [
        "test_cli_collect.py::test_an_environment_of_a_module_is_found_in_the_working_directory"
    ],
    # collection
    "workers=0 means all cores": [
        "test_collect.py::test_an_argument_out_of_range_is_an_input_error_that_names_it[workers-0]",
        "test_cli_collect.py::test_wrong_input_is_answered_with_one_line_and_exit_code_2"
        "[no workers]",
    ],
    "NaN observations are passed to the policy, which is then blamed": [
        "test_collect.py::test_nan_observations_are_the_environments_fault_not_the_policys"
    ],
    "a wrong action is blamed on the last episode of the batch": [
        "test_collect.py::test_an_action_out_of_range_is_answered_with_the_seed_of_its_episode"
    ],
    "errors while a worker prepares become a traceback and `died (exit code 1)`": [
        "test_collect.py::test_a_policy_that_raises_only_in_the_workers_is_answered_with_its_error"
    ],
    "the timeout counts all resets of a batch together": [
        "test_collect.py::test_several_slow_resets_in_a_row_are_not_taken_for_a_hang"
    ],
    "BrokenPipeError while a job is sent: leaked workers, and exit code 0 from the command": [
        "test_collect.py::test_a_worker_that_dies_at_once_is_a_collection_error"
    ],
    "what an environment's constructor prints lands on standard output": [
        "test_collect.py::test_nothing_lands_on_standard_output[LoudConstructor-v0]"
    ],
    "Ctrl-C reaches workers before they ignore it: tracebacks": [
        "test_cli_collect.py::test_ctrl_c_while_the_workers_start_is_one_line_too"
    ],
    "a destination that cannot be written is found out after the collection": [
        "test_sources.py::test_a_destination_that_cannot_be_written_is_refused_before_anything_is_"
        "collected",
        "test_sources.py::test_a_destination_whose_package_is_missing_is_refused_before_anything_is_"
        "collected",
        "test_cli_collect.py::test_wrong_input_is_answered_with_one_line_and_exit_code_2"
        "[a folder that is a file]",
    ],
    # episodes and their files
    "dimensions and widths of a record's arrays are not checked": [
        *(
            f"test_episodes.py::test_a_record_that_is_not_whole_is_refused[{case}]"
            for case in ("rewards in a column", "another width at the end", "flags in a column")
        ),
        *(
            f"test_storage.py::test_a_header_that_does_not_fit_the_data_is_an_input_error[{case}]"
            for case in ("rewards in a column", "offsets in a column")
        ),
    ],
    "summing rewards to look for NaN warns of overflow": [
        "test_episodes.py::test_a_record_that_is_not_whole_is_refused[rewards of both infinities]",
        "test_episodes.py::test_large_finite_rewards_are_finite_although_their_sum_is_not",
    ],
    "the types of a record's arrays are not checked; its file can then not be read": [
        f"test_episodes.py::test_fields_have_one_type_each_or_could_not_be_stored[{case}]"
        for case in (
            *("observations-float64", "rewards-float32", "offsets-int32", "truncated-float32"),
            *("seeds-float64", "success-int8", "final_observations-float64"),
        )
    ],
    "episode(-1) is empty": [
        "test_episodes.py::test_an_index_outside_the_record_is_an_error_and_a_negative_one_counts_"
        "from_the_end"
    ],
    "join checks neither the shapes of actions nor the length of each episode": [
        f"test_episodes.py::test_ragged_episodes_are_refused[{case}]"
        for case in (
            *("actions of another shape", "final observations of another width"),
            "an observation moved to the next episode",
            "an action moved to the next episode",
        )
    ],
    "actions of these types are written but cannot be read": [
        f"test_storage.py::test_actions_of_every_type_survive[{kind}]"
        for kind in ("int8", "uint8", "int16", "uint16", "uint32", "uint64", "float16")
    ],
    "unknown arrays, types of optional arrays and the subject's type are not checked": [
        "test_storage.py::test_a_bit_flipped_in_the_header_never_passes_for_other_data",
        *(
            f"test_storage.py::test_a_header_that_does_not_fit_the_data_is_an_input_error[{case}]"
            for case in (
                *("a subject that is no object", "a subject that is nothing"),
                *("final observations as whole numbers", "an unknown array"),
            )
        ),
    ],
    "validation=0 is reported by span, not by its name": [
        "test_sources.py::test_a_share_that_is_no_number_of_episodes_is_an_input_error_that_names_it"
        "[validation-0]"
    ],
    # logs
    "types and dimensions of a log's arrays are not checked": [
        *(
            f"test_logs.py::test_a_bad_log_is_an_input_error_that_says_what_is_wrong[{case}]"
            for case in (
                *("next observations of another width", "two flags per step"),
                *("words for rewards", "words for actions", "complex rewards", "an empty log"),
                *("one number for observations", "one number for terminals"),
                "one number for actions",
            )
        ),
        "test_logs.py::test_ragged_arrays_in_hdf5_are_an_input_error[rewards]",
        "test_logs.py::test_ragged_arrays_in_hdf5_are_an_input_error[actions]",
    ],
    "the seeds in a Minari dataset are not read": [
        "test_logs.py::test_the_seeds_in_a_minari_dataset_are_read",
        "test_logs.py::test_seeds_survive_a_minari_dataset",
    ],
    "of Minari's flags only the last is looked at": [
        f"test_logs.py::test_lengths_that_disagree_in_minari_are_an_input_error[{case}]"
        for case in (
            *("too few terminations", "too few truncations"),
            *("truncated all the time", "terminated in the middle"),
        )
    ],
    "a malformed id leaves a folder behind that makes Minari's database unreadable": [
        "test_logs.py::test_a_malformed_id_is_an_input_error_and_leaves_the_database_as_it_was"
    ],
}
