//! The terms of a task, to the wire and back. A task without any costs nothing here.
//!
//! Decides what an absent field means: its default. A number that stands for nothing known is refused with its field,
//! because a worker or a client of a later version may mean something by it that matters.

use bytes::Bytes;
use divvy_types::{
    Dependency, GroupDependency, Matching, Name, OnConflict, RetryPolicy, RetryRule, Terms,
    Timestamp, Unique, Workflow, WorkflowId, WorkflowRole,
};

use crate::convert::{WireError, small, task_id};
use crate::convert_report::{class_from_wire, class_to_wire};
use crate::v1;

/// Reads the terms of a spec; zero and empty fields get their defaults.
pub(crate) fn terms_from_wire(wire: v1::TaskSpec) -> Result<Terms, WireError> {
    let after = wire.after.iter().map(|edge| {
        Ok(Dependency { task: task_id("after.task", &edge.task)?, optional: edge.optional })
    });
    let groups = wire.after_groups.into_iter();
    let groups =
        groups.map(|edge| GroupDependency { group: edge.group.into(), optional: edge.optional });
    Ok(Terms {
        needs: names(wire.needs),
        matching: matching_from_wire(wire.matching)?,
        after: after.collect::<Result<_, WireError>>()?,
        run_at: time("run_at_us", wire.run_at_us)?,
        deadline: time("deadline_us", wire.deadline_us)?,
        timeout_ms: (wire.timeout_ms != 0).then_some(wire.timeout_ms),
        retry: wire.retry.map(retry_from_wire).transpose()?.unwrap_or_default(),
        workflow: wire.workflow.map(workflow_from_wire).transpose()?.map(Box::new),
        unique: wire.unique.map(unique_from_wire).transpose()?,
        limits: names(wire.limits),
        fair_key: name(wire.fair_key),
        affinity: name(wire.affinity),
        cost_hint: wire.cost_hint,
        tags: names(wire.tags),
        group: name(wire.group),
        after_groups: groups.collect(),
    })
}

/// Puts the terms into a spec; defaults are left out.
pub(crate) fn terms_to_wire(terms: &Terms, wire: &mut v1::TaskSpec) {
    let edge = |edge: &Dependency| v1::Dependency {
        task: Bytes::copy_from_slice(&edge.task.to_bytes()),
        optional: edge.optional,
    };
    // Named one by one, so that a new term cannot be forgotten.
    let Terms {
        needs,
        matching,
        after,
        run_at,
        deadline,
        timeout_ms,
        retry,
        workflow,
        unique,
        limits,
        fair_key,
        affinity,
        cost_hint,
        tags,
        group,
        after_groups,
    } = terms;
    wire.needs = texts(needs);
    wire.matching = matching.map_or(v1::Matching::Default, matching_to_wire).into();
    wire.after = after.iter().map(edge).collect();
    wire.run_at_us = run_at.map_or(0, |at| at.0);
    wire.deadline_us = deadline.map_or(0, |at| at.0);
    wire.timeout_ms = timeout_ms.unwrap_or(0);
    wire.retry = (!retry.is_default()).then(|| retry_to_wire(retry));
    wire.workflow = workflow.as_deref().map(workflow_to_wire);
    wire.unique = unique.as_ref().map(unique_to_wire);
    wire.limits = texts(limits);
    wire.fair_key = text(fair_key);
    wire.affinity = text(affinity);
    wire.cost_hint = *cost_hint;
    wire.tags = texts(tags);
    wire.group = text(group);
    let edge = |edge: &GroupDependency| v1::GroupDependency {
        group: edge.group.to_string(),
        optional: edge.optional,
    };
    wire.after_groups = after_groups.iter().map(edge).collect();
}

fn texts(names: &[Name]) -> Vec<String> {
    names.iter().map(Name::to_string).collect()
}

fn text(name: &Option<Name>) -> String {
    name.as_ref().map(Name::to_string).unwrap_or_default()
}

/// A time that has no text form could not be told to people, nor be compared after it was stored.
fn time(field: &'static str, micros: u64) -> Result<Option<Timestamp>, WireError> {
    if micros > Timestamp::MAX.0 {
        let problem =
            format!("is {micros}, at most {}, which is in the year 9999", Timestamp::MAX.0);
        return Err(WireError::new(field, problem));
    }
    Ok((micros != 0).then_some(Timestamp(micros)))
}

fn names(list: Vec<String>) -> Vec<Name> {
    list.into_iter().map(Name::from).collect()
}

fn name(text: String) -> Option<Name> {
    (!text.is_empty()).then(|| text.into())
}

fn matching_from_wire(wire: i32) -> Result<Option<Matching>, WireError> {
    match v1::Matching::try_from(wire) {
        Ok(v1::Matching::Default) => Ok(None),
        Ok(v1::Matching::Exact) => Ok(Some(Matching::Exact)),
        Ok(v1::Matching::BestFit) => Ok(Some(Matching::BestFit)),
        Ok(v1::Matching::Fallback) => Ok(Some(Matching::Fallback)),
        Err(_) => Err(unknown("matching", wire)),
    }
}

fn matching_to_wire(matching: Matching) -> v1::Matching {
    match matching {
        Matching::Exact => v1::Matching::Exact,
        Matching::BestFit => v1::Matching::BestFit,
        Matching::Fallback => v1::Matching::Fallback,
    }
}

fn unique_from_wire(wire: v1::Unique) -> Result<Unique, WireError> {
    let on_conflict = match v1::OnConflict::try_from(wire.on_conflict) {
        Ok(v1::OnConflict::Skip) => OnConflict::Skip,
        Ok(v1::OnConflict::Replace) => OnConflict::Replace,
        Ok(v1::OnConflict::Refuse) => OnConflict::Refuse,
        Err(_) => return Err(unknown("unique.on_conflict", wire.on_conflict)),
    };
    Ok(Unique { key: wire.key.into(), window_ms: wire.window_ms, on_conflict })
}

fn unique_to_wire(unique: &Unique) -> v1::Unique {
    let on_conflict = match unique.on_conflict {
        OnConflict::Skip => v1::OnConflict::Skip,
        OnConflict::Replace => v1::OnConflict::Replace,
        OnConflict::Refuse => v1::OnConflict::Refuse,
    };
    v1::Unique {
        key: unique.key.to_string(),
        window_ms: unique.window_ms,
        on_conflict: on_conflict.into(),
    }
}

fn retry_from_wire(wire: v1::RetryPolicy) -> Result<RetryPolicy, WireError> {
    let rule = |wire: v1::RetryRule| {
        let class = wire.class.map(|class| class_from_wire("retry.rules.class", class));
        Ok(RetryRule {
            class: class.transpose()?,
            contains: wire.contains.map(Name::from),
            limit: wire.limit,
            base_ms: wire.base_ms,
            cap_ms: wire.cap_ms,
        })
    };
    Ok(RetryPolicy {
        limit: wire.limit,
        base_ms: wire.base_ms,
        cap_ms: wire.cap_ms,
        jitter_percent: small("retry.jitter_percent", wire.jitter_percent, 100)?,
        rules: wire.rules.into_iter().map(rule).collect::<Result<_, WireError>>()?,
    })
}

fn retry_to_wire(retry: &RetryPolicy) -> v1::RetryPolicy {
    let rule = |rule: &RetryRule| v1::RetryRule {
        class: rule.class.map(|class| class_to_wire(class).into()),
        contains: rule.contains.as_ref().map(Name::to_string),
        limit: rule.limit,
        base_ms: rule.base_ms,
        cap_ms: rule.cap_ms,
    };
    v1::RetryPolicy {
        limit: retry.limit,
        base_ms: retry.base_ms,
        cap_ms: retry.cap_ms,
        jitter_percent: retry.jitter_percent.into(),
        rules: retry.rules.iter().map(rule).collect(),
    }
}

fn workflow_from_wire(wire: v1::Workflow) -> Result<Workflow, WireError> {
    let id = WorkflowId::from_slice(&wire.id);
    let id = id.ok_or_else(|| WireError::new("workflow.id", "is not 16 bytes"))?;
    let role = match v1::WorkflowRole::try_from(wire.role) {
        Ok(v1::WorkflowRole::Member) => WorkflowRole::Member,
        Ok(v1::WorkflowRole::OnSuccess) => WorkflowRole::OnSuccess,
        Ok(v1::WorkflowRole::OnFailure) => WorkflowRole::OnFailure,
        Err(_) => return Err(unknown("workflow.role", wire.role)),
    };
    Ok(Workflow { id, name: wire.name.into(), role })
}

fn workflow_to_wire(workflow: &Workflow) -> v1::Workflow {
    let role = match workflow.role {
        WorkflowRole::Member => v1::WorkflowRole::Member,
        WorkflowRole::OnSuccess => v1::WorkflowRole::OnSuccess,
        WorkflowRole::OnFailure => v1::WorkflowRole::OnFailure,
    };
    v1::Workflow {
        id: Bytes::copy_from_slice(&workflow.id.to_bytes()),
        name: workflow.name.to_string(),
        role: role.into(),
    }
}

pub(crate) fn unknown(field: &'static str, value: i32) -> WireError {
    WireError::new(field, format!("is {value}, which this version does not know; update it"))
}
